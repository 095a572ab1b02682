package httpapi

import (
	"math"
	"net/http"

	"example.com/canvasback/httpapi/internal/bodies"
)

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
	options := &a.options
	limit, symbolLimit, batchLimit, importLimit := options.Limits.Body, options.Limits.Symbol, options.Limits.Batch, options.Limits.Import

	list := []route{
		{get, "/openapi.json", noKey, none, limit, staticFile([]byte(document), "application/json", false)},
		{get, "/client.js", noKey, none, limit, clientFile("client.js", "text/javascript")},
		{get, "/client.d.ts", noKey, none, limit, clientFile("client.d.ts", "text/plain")},
	}
	if options.Keys != nil {
		e := keyEndpoints{options.Keys}
		list = append(list,
			route{get, "/admin/api-keys", adminKey, none, limit, e.listKeys},
			route{post, "/admin/api-keys", adminKey, none, limit, withBody(created, e.createKey)},
			route{patch, "/admin/api-keys", adminKey, none, limit, withBody(ok, e.updateKeys)},
			route{post, "/admin/api-keys/delete", adminKey, none, limit, withBody(ok, e.deleteKeys)},
			route{get, "/admin/api-keys/{id}", adminKey, none, limit, withoutBody(e.getKey)},
			route{patch, "/admin/api-keys/{id}", adminKey, none, limit, withBody(ok, e.updateKey)},
			route{post, "/admin/api-keys/{id}/rotate", adminKey, none, limit, withBody(ok, e.rotateKey)},
			route{remove, "/admin/api-keys/{id}", adminKey, none, limit, withoutBody(e.deleteKey)},
			route{get, "/admin/api-keys/{id}/usage", adminKey, none, limit, e.keyUsage},
			route{get, "/admin/usage", adminKey, none, limit, e.totalUsage},
		)
		if options.Keys.AcceptsForeign() {
			list = append(list, route{post, "/admin/api-keys/import", adminKey, none, 8 * min(limit, math.MaxInt64/8), withBody(created, e.importKeys)})
		}
		if options.RevokeRoute {
			list = append(list, route{post, "/viewer/key/revoke", noKey, none, limit, withBody(ok, e.revokeRawKeys)})
		}
		list = append(list,
			route{post, "/viewer/tokens", ownKey, none, limit, e.createToken},
			route{get, "/viewer/key", ownKey, none, limit, getOwnKey},
		)
	}
	if options.Symbols != nil {
		e := symbolEndpoints{options.Symbols, bodies.New(options.Symbols, options.Limits.ListCache, options.Limits.StoreTimeout), options.Limits.ImportContents}
		list = append(list,
			route{get, "/symbol/folders", clientKey, ScopeSymbolsRead, limit, e.listFolders},
			route{post, "/symbol/folders", clientKey, ScopeSymbolsWrite, limit, withBody(created, e.createFolder)},
			route{get, "/symbol/folders/{id}", clientKey, ScopeSymbolsRead, limit, e.get(bodies.Folder)},
			route{patch, "/symbol/folders/{id}", clientKey, ScopeSymbolsWrite, limit, withBody(ok, e.updateFolder)},
			route{remove, "/symbol/folders/{id}", clientKey, ScopeSymbolsWrite, limit, withoutBody(e.deleteFolder)},
			route{get, "/symbol/folders/{id}/symbols", clientKey, ScopeSymbolsRead, limit, e.listSymbols},
			route{post, "/symbol/folders/{id}/symbols", clientKey, ScopeSymbolsWrite, symbolLimit, withBody(created, e.createSymbol)},
			route{get, "/symbol/folders/{id}/export", clientKey, ScopeSymbolsRead, limit, download(e.exportSymbols)},
			route{post, "/symbol/folders/{id}/import", clientKey, ScopeSymbolsWrite, importLimit, e.importSymbols},
			route{get, "/symbol/symbols/{id}", clientKey, ScopeSymbolsRead, limit, e.get(bodies.Symbol)},
			route{get, "/symbol/symbols/{id}/image", clientKey, ScopeSymbolsRead, limit, e.get(bodies.Image)},
			route{get, "/symbol/changes", clientKey, ScopeSymbolsRead, limit, e.streamChanges},
			route{get, "/symbol/search", clientKey, ScopeSymbolsRead, limit, e.searchSymbols},
			route{patch, "/symbol/symbols/{id}", clientKey, ScopeSymbolsWrite, symbolLimit, e.updateSymbol},
			route{remove, "/symbol/symbols/{id}", clientKey, ScopeSymbolsWrite, limit, withoutBody(e.deleteSymbol)},
			route{patch, "/symbol/symbols", clientKey, ScopeSymbolsWrite, limit, withBody(ok, e.updateSymbols)},
			route{post, "/symbol/symbols/delete", clientKey, ScopeSymbolsWrite, limit, withBody(ok, e.deleteSymbols)},
			route{get, "/symbol/trash", clientKey, ScopeSymbolsWrite, limit, e.listTrash},
			route{post, "/symbol/trash/{id}/restore", clientKey, ScopeSymbolsWrite, limit, withBody(ok, e.restore)},
			route{remove, "/symbol/trash/{id}", clientKey, ScopeSymbolsWrite, limit, withoutBody(e.deleteTrash)},
		)
	}
	if options.Exports != nil {
		e := exportEndpoints{options.Exports, options.RegisterOwnOnly, options.Tenant != nil}
		list = append(list,
			route{get, "/admin/exports", adminKey, none, limit, e.listExports},
			route{get, "/admin/exports/{id}", adminKey, none, limit, withoutBody(e.getExport)},
			route{remove, "/admin/exports/{id}", adminKey, none, limit, e.deleteExport},
			route{post, "/admin/exports/{id}/check", adminKey, none, limit, e.checkExport},
			route{post, "/viewer/exports/download", clientKey, ScopeExportsRead, limit, download(e.download)},
			route{post, "/viewer/exports/download-batch", clientKey, ScopeExportsRead, batchLimit, download(e.downloadBatch)},
		)
		if options.Exports.HasLinks() {
			list = append(list,
				route{post, "/viewer/exports/links", clientKey, ScopeExportsRead, batchLimit, download(e.createLink)},
				route{get, "/viewer/exports/links/{token}/{fileName}", noKey, none, limit, e.serveLink}, // checks the key of the link
			)
		}
		if options.RegisterWith != RegisterOff {
			auth := map[RegisterWith]credential{RegisterWithScope: registerKey, RegisterWithClientKey: clientKey, RegisterWithAdminKey: adminKey}
			list = append(list, route{post, "/viewer/exports/register", auth[options.RegisterWith], ScopeExportsRegister, limit, e.register})
		}
	}
	return list
}
