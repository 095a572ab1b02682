package httpapi

import (
	"net/http"
	"strings"
)

// route is a row of the table below.
type route struct {
	method   string
	path     string
	auth     auth
	scope    string // that a client key needs
	limit    int64  // of the request body, in bytes
	endpoint endpoint
}

// Scopes that routes require of client keys. Others are the application's own.
const (
	ScopeExportsRead     = "exports:read"     // downloads and links
	ScopeExportsRegister = "exports:register" // registration of exports
	ScopeSymbolsRead     = "symbols:read"     // GET of folders and symbols
	ScopeSymbolsWrite    = "symbols:write"    // all else with folders and symbols
)

// resource returns the kind of record that {id} in the path identifies.
func (r route) resource() string {
	for prefix, kind := range map[string]string{
		"/admin/api-keys/{id}": "key",
		"/admin/exports/{id}":  "export",
		"/symbol/folders/{id}": "folder",
		"/symbol/symbols/{id}": "symbol",
	} {
		if strings.HasPrefix(r.path, prefix) {
			return kind
		}
	}
	return ""
}

// routes returns the route table. The mux, the key checks, the body limits and the
// tests are derived from it.
func (a *API) routes() []route {
	const (
		get    = http.MethodGet
		post   = http.MethodPost
		patch  = http.MethodPatch
		remove = http.MethodDelete

		ok      = http.StatusOK
		created = http.StatusCreated

		none = "" // no scope
	)
	limit, symbolLimit, batchLimit, importLimit := a.options.BodyLimit, a.options.SymbolLimit, a.options.BatchLimit, a.options.ImportLimit

	list := []route{{get, "/openapi.json", noKey, none, limit, a.serveDocument}}
	if a.keys != nil {
		list = append(list,
			route{get, "/admin/api-keys", adminKey, none, limit, a.listKeys},
			route{post, "/admin/api-keys", adminKey, none, limit, jsonEndpoint(a, created, a.createKey)},
			route{get, "/admin/api-keys/{id}", adminKey, none, limit, jsonEndpoint(a, ok, a.getKey)},
			route{patch, "/admin/api-keys/{id}", adminKey, none, limit, jsonEndpoint(a, ok, a.updateKey)},
			route{post, "/admin/api-keys/{id}/rotate", adminKey, none, limit, jsonEndpoint(a, ok, a.rotateKey)},
			route{remove, "/admin/api-keys/{id}", adminKey, none, limit, jsonEndpoint(a, ok, a.deleteKey)},
		)
	}
	if a.symbols != nil {
		list = append(list,
			route{get, "/symbol/folders", clientKey, ScopeSymbolsRead, limit, a.listFolders},
			route{post, "/symbol/folders", clientKey, ScopeSymbolsWrite, limit, jsonEndpoint(a, created, a.createFolder)},
			route{get, "/symbol/folders/{id}", clientKey, ScopeSymbolsRead, limit, a.getEndpoint(folderVersion, a.getFolder)},
			route{patch, "/symbol/folders/{id}", clientKey, ScopeSymbolsWrite, limit, jsonEndpoint(a, ok, a.updateFolder)},
			route{remove, "/symbol/folders/{id}", clientKey, ScopeSymbolsWrite, limit, jsonEndpoint(a, ok, a.deleteFolder)},
			route{get, "/symbol/folders/{id}/symbols", clientKey, ScopeSymbolsRead, limit, a.listSymbols},
			route{post, "/symbol/folders/{id}/symbols", clientKey, ScopeSymbolsWrite, symbolLimit, jsonEndpoint(a, created, a.createSymbol)},
			route{get, "/symbol/folders/{id}/export", clientKey, ScopeSymbolsRead, limit, a.stream(a.exportSymbols)},
			route{post, "/symbol/folders/{id}/import", clientKey, ScopeSymbolsWrite, importLimit, a.importSymbols},
			route{get, "/symbol/symbols/{id}", clientKey, ScopeSymbolsRead, limit, a.getEndpoint(symbolVersion, a.getSymbol)},
			route{get, "/symbol/symbols/{id}/image", clientKey, ScopeSymbolsRead, limit, a.getImage},
			route{get, "/symbol/search", clientKey, ScopeSymbolsRead, limit, a.searchSymbols},
			route{patch, "/symbol/symbols/{id}", clientKey, ScopeSymbolsWrite, symbolLimit, jsonEndpoint(a, ok, a.updateSymbol)},
			route{remove, "/symbol/symbols/{id}", clientKey, ScopeSymbolsWrite, limit, jsonEndpoint(a, ok, a.deleteSymbol)},
		)
	}
	if a.exports != nil {
		list = append(list,
			route{get, "/admin/exports", adminKey, none, limit, a.listExports},
			route{get, "/admin/exports/{id}", adminKey, none, limit, jsonEndpoint(a, ok, a.getExport)},
			route{remove, "/admin/exports/{id}", adminKey, none, limit, a.deleteExport},
			route{post, "/admin/exports/{id}/check", adminKey, none, limit, a.checkExport},
			route{post, "/viewer/exports/download", clientKey, ScopeExportsRead, limit, a.stream(a.downloadExport)},
			route{post, "/viewer/exports/download-batch", clientKey, ScopeExportsRead, batchLimit, a.stream(a.downloadBatch)},
			route{post, "/viewer/exports/links", clientKey, ScopeExportsRead, batchLimit, a.stream(a.createLink)},
			route{get, "/viewer/exports/links/{token}/{fileName}", noKey, none, limit, a.serveLink}, // checks the key of the link
		)
		switch a.options.RegisterWith {
		case RegisterWithClientKey:
			list = append(list, route{post, "/viewer/exports/register", clientKey, ScopeExportsRegister, limit, a.registerExport})
		case RegisterWithAdminKey:
			list = append(list, route{post, "/viewer/exports/register", adminKey, none, limit, a.registerExport})
		}
	}
	return list
}
