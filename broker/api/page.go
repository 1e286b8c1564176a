package api

import (
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

// The MQTT Broker page: hand-written files that are served as they are. It asks the
// routes of this API, with the credential of whoever looks at it.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own files and ask this API, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageTypes are the kinds of file the page is made of, whatever the machine's own table says.
var pageTypes = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func (a *API) page(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	content, err := fs.ReadFile(pageFiles, path.Join("page", path.Base(name)))
	if err != nil {
		refuse(http.StatusNotFound, codeNotFound, "%s: no such file of the page at /", r.URL.Path).write(w)
		return
	}
	kind := pageTypes[path.Ext(name)]
	if kind == "" {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(content)
}
