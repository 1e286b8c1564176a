package limits

import (
	"encoding/base64"
	"fmt"
	"time"
)

// foreignToken is a token that claims to be of an issuer; who is to judge it has
// to fetch the issuer's keys first.
func foreignToken(issuer string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	claims := fmt.Sprintf(`{"iss":%q,"aud":"uns","client_id":"dev-a","exp":%d}`, issuer, time.Now().Add(time.Hour).Unix())
	return part(`{"alg":"ES256","kid":"1"}`) + "." + part(claims) + "." + part("not a signature, but as long as one of ES256 is: 64 bytes in all.")
}
