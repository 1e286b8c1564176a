package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tree is the files of a layer by their path in the image, without a leading slash.
// The folders above them need not be named.
type tree map[string]file

// file is one entry: of a file of this machine, of given bytes, a link, or, with
// none of these, a folder.
type file struct {
	source  string
	content []byte
	link    string
	mode    int64
	owner   int
}

// program adds a program of this machine.
func (t tree) program(at, source string) { t[at] = file{source: source, mode: 0o755} }

// folder adds a folder that everybody may write to, or only one user.
func (t tree) folder(at string, owner int) {
	mode := int64(0o1777)
	if owner != 0 {
		mode = 0o700
	}
	t[at] = file{mode: mode, owner: owner}
}

// users are the accounts of an image, so that programs find their own name.
func (t tree) users(names map[string]int) {
	passwd, group := "root:x:0:0:root:/:/sbin/nologin\n", "root:x:0:\n"
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	for _, name := range sorted {
		passwd += fmt.Sprintf("%s:x:%d:%d:%s:/:/sbin/nologin\n", name, names[name], names[name], name)
		group += fmt.Sprintf("%s:x:%d:\n", name, names[name])
	}
	t["etc/passwd"] = file{content: []byte(passwd), mode: 0o644}
	t["etc/group"] = file{content: []byte(group), mode: 0o644}
	t["etc/nsswitch.conf"] = file{content: []byte("passwd: files\ngroup: files\nhosts: files dns\n"), mode: 0o644}
}

// paths are all entries in order, folders before what is in them.
func (t tree) paths() []string {
	all := map[string]bool{}
	for p := range t {
		for ; p != "."; p = path.Dir(p) {
			all[p] = true
		}
	}
	sorted := make([]string, 0, len(all))
	for p := range all {
		sorted = append(sorted, p)
	}
	sort.Strings(sorted)
	return sorted
}

// digest depends on everything the layer holds and on nothing else.
func (t tree) digest() (string, error) {
	sum := sha256.New()
	for _, p := range t.paths() {
		f := t[p]
		fmt.Fprintf(sum, "%q %q %o %d %d\n", p, f.link, f.mode, f.owner, len(f.content))
		sum.Write(f.content)
		if f.source == "" {
			continue
		}
		in, err := os.Open(f.source)
		if err != nil {
			return "", err
		}
		n, err := io.Copy(sum, in)
		in.Close()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%d\n", n)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// layer packs the files, compressed lightly: they travel over loopback.
func (t tree) layer() (v1.Layer, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zip)
	for _, p := range t.paths() {
		if err := t.add(w, p); err != nil {
			return nil, fmt.Errorf("pack %s: %w", p, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

func (t tree) add(w *tar.Writer, p string) error {
	f, given := t[p]
	if !given {
		f.mode = 0o755
	}
	h := &tar.Header{Name: p, Mode: f.mode, Uid: f.owner, Gid: f.owner, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
	var content io.Reader = bytes.NewReader(f.content)
	switch {
	case f.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
	case f.source != "":
		in, err := os.Open(f.source)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		h.Size, content = info.Size(), in
	case f.content != nil:
		h.Size = int64(len(f.content))
	default:
		h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(p, "/")+"/"
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(w, content)
	return err
}

// inImage is the path of a file of this machine in an image, after Debian's merge of
// /lib and /bin into /usr.
func inImage(path string) string {
	for _, merged := range []string{"lib64", "lib", "bin", "sbin"} {
		if rest, is := strings.CutPrefix(path, "/"+merged+"/"); is {
			return filepath.Join("usr", merged, rest)
		}
	}
	return strings.TrimPrefix(path, "/")
}

// merged are the links that merge makes.
func (t tree) merged() {
	for _, name := range []string{"lib64", "lib", "bin", "sbin"} {
		t[name] = file{link: "usr/" + name}
	}
}
