package httpapi

import "net/http"

// route is a row of the table below.
type route struct {
	method   string
	path     string
	auth     auth
	limit    int64 // of the request body, in bytes
	endpoint endpoint
}

// routes is the table from which everything about routes is made.
func (a *API) routes() []route {
	const (
		get    = http.MethodGet
		post   = http.MethodPost
		patch  = http.MethodPatch
		remove = http.MethodDelete

		ok      = http.StatusOK
		created = http.StatusCreated
	)
	small, symbol, batch := a.options.BodyLimit, a.options.SymbolLimit, a.options.BatchLimit

	list := []route{{get, "/openapi.json", noKey, small, serveDocument}}
	if a.keys != nil {
		list = append(list,
			route{get, "/admin/api-keys", adminKey, small, jsonEndpoint(a, ok, a.listKeys)},
			route{post, "/admin/api-keys", adminKey, small, jsonEndpoint(a, created, a.createKey)},
			route{get, "/admin/api-keys/{id}", adminKey, small, jsonEndpoint(a, ok, a.getKey)},
			route{patch, "/admin/api-keys/{id}", adminKey, small, jsonEndpoint(a, ok, a.updateKey)},
			route{post, "/admin/api-keys/{id}/rotate", adminKey, small, jsonEndpoint(a, ok, a.rotateKey)},
			route{remove, "/admin/api-keys/{id}", adminKey, small, jsonEndpoint(a, ok, a.deleteKey)},
		)
	}
	if a.symbols != nil {
		list = append(list,
			route{get, "/symbol/folders", clientKey, small, a.getEndpoint(folderListVersion, a.listFolders)},
			route{post, "/symbol/folders", clientKey, small, jsonEndpoint(a, created, a.createFolder)},
			route{get, "/symbol/folders/{id}", clientKey, small, a.getEndpoint(folderVersion, a.getFolder)},
			route{patch, "/symbol/folders/{id}", clientKey, small, jsonEndpoint(a, ok, a.updateFolder)},
			route{remove, "/symbol/folders/{id}", clientKey, small, jsonEndpoint(a, ok, a.deleteFolder)},
			route{get, "/symbol/folders/{id}/symbols", clientKey, small, a.listSymbols},
			route{post, "/symbol/folders/{id}/symbols", clientKey, symbol, jsonEndpoint(a, created, a.createSymbol)},
			route{get, "/symbol/folders/{id}/export", clientKey, small, a.exportSymbols},
			route{post, "/symbol/folders/{id}/import", clientKey, a.options.ImportLimit, a.importSymbols},
			route{get, "/symbol/symbols/{id}", clientKey, small, a.getEndpoint(symbolVersion, a.getSymbol)},
			route{patch, "/symbol/symbols/{id}", clientKey, symbol, jsonEndpoint(a, ok, a.updateSymbol)},
			route{remove, "/symbol/symbols/{id}", clientKey, small, jsonEndpoint(a, ok, a.deleteSymbol)},
		)
	}
	if a.exports != nil {
		list = append(list,
			route{post, "/viewer/exports/download", clientKey, small, a.downloadExport},
			route{post, "/viewer/exports/download-batch", clientKey, batch, a.downloadBatch},
		)
		switch a.options.RegisterWith {
		case RegisterWithClientKey:
			list = append(list, route{post, "/viewer/exports/register", clientKey, small, a.registerExport})
		case RegisterWithAdminKey:
			list = append(list, route{post, "/viewer/exports/register", adminKey, small, a.registerExport})
		}
	}
	return list
}
