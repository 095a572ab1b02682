package httpapi

import (
	"context"
	"net/http"
	"slices"

	"example.com/canvasback/symbols"
)

type folderRecord symbols.Folder

func (f folderRecord) resource() Resource           { return Resource{Kind: "folder", ID: f.ID} }
func (f folderRecord) version() symbols.Version     { return f.Version }
func (f folderRecord) appendJSON(dst []byte) []byte { return appendFolder(dst, symbols.Folder(f)) }

func (a *API) listFolders(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL)
	p, err := q.page()
	if err != nil {
		return err
	}
	key := bodyKey{versionKey: versionKey{kind: folderListVersion}, page: p, gzip: compressible(w, r)}
	return a.sendList(w, r, q, key, viewOf(q, p, 0), func(int64) (encodedBody, error) { return a.encodeFolders(r, key) })
}

// encodeFolders reads and encodes the folder list.
func (a *API) encodeFolders(r *http.Request, key bodyKey) (encodedBody, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	list, err := a.symbols.ListFolders(ctx, key.page.selection())
	if err != nil {
		return encodedBody{}, err
	}
	out := listEncoder{compress: key.gzip}
	out.add(appendFolders(nil, list.Folders))
	body := encodedBody{version: list.Version}
	body.parts, body.gzip = out.finish()
	if list.More {
		body.next = list.Folders[len(list.Folders)-1].ID
	}
	return body, nil
}

type createFolderRequest struct {
	Name string `json:"name"`
}

func (a *API) createFolder(ctx context.Context, _ int64, in createFolderRequest) (folderRecord, error) {
	folder, err := a.symbols.CreateFolder(ctx, in.Name)
	return folderRecord(folder), err
}

func (a *API) getFolder(ctx context.Context, id int64) (taggedBody, error) {
	folder, err := a.symbols.GetFolder(ctx, id)
	return folderRecord(folder), err
}

type updateFolderRequest struct {
	ifMatch `json:"-"`
	Name    optional[string] `json:"name"`
}

func (a *API) updateFolder(ctx context.Context, id int64, in updateFolderRequest) (folderRecord, error) {
	folder, err := a.symbols.UpdateFolder(ctx, id, symbols.FolderFields{Name: in.Name.pointer()}, in.versions...)
	return folderRecord(folder), err
}

func (a *API) deleteFolder(ctx context.Context, id int64, in ifMatch) (messageResponse, error) {
	return messageResponse{"Folder deleted."}, a.symbols.DeleteFolder(ctx, id, in.versions...)
}

type symbolRecord symbols.Symbol

func (s symbolRecord) resource() Resource       { return Resource{Kind: "symbol", ID: s.ID} }
func (s symbolRecord) version() symbols.Version { return s.Version }

func (s symbolRecord) appendJSON(dst []byte) []byte {
	return appendSymbol(slices.Grow(dst, encodedSize(s.Name, s.Type, s.Data)), symbols.Symbol(s))
}

type createSymbolRequest struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Data string `json:"data"`
}

func (a *API) createSymbol(ctx context.Context, folderID int64, in createSymbolRequest) (symbolRecord, error) {
	symbol, err := a.symbols.CreateSymbol(ctx, folderID, in.Name, in.Type, in.Data)
	return symbolRecord(symbol), err
}

func (a *API) getSymbol(ctx context.Context, id int64) (taggedBody, error) {
	symbol, err := a.symbols.GetSymbol(ctx, id)
	return symbolRecord(symbol), err
}

type updateSymbolRequest struct {
	ifMatch  `json:"-"`
	Name     optional[string] `json:"name"`
	Type     optional[string] `json:"type"`
	Data     optional[string] `json:"data"`
	FolderID optional[int64]  `json:"folderId"`
}

func (a *API) updateSymbol(ctx context.Context, id int64, in updateSymbolRequest) (symbolRecord, error) {
	symbol, err := a.symbols.UpdateSymbol(ctx, id, symbols.SymbolFields{
		Name:     in.Name.pointer(),
		Type:     in.Type.pointer(),
		Data:     in.Data.pointer(),
		FolderID: in.FolderID.pointer(),
	}, in.versions...)
	return symbolRecord(symbol), err
}

func (a *API) deleteSymbol(ctx context.Context, id int64, in ifMatch) (messageResponse, error) {
	return messageResponse{"Symbol deleted."}, a.symbols.DeleteSymbol(ctx, id, in.versions...)
}
