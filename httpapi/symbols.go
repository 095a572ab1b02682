package httpapi

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"example.com/canvasback/symbols"
)

type symbolFolder struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

func newSymbolFolder(folder symbols.Folder) symbolFolder {
	return symbolFolder{ID: folder.ID, Name: folder.Name}
}

type symbolRecord struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	Type     string `json:"type"`
	Data     string `json:"data"`
	FolderID int64  `json:"folderId"`
}

func newSymbolRecord(symbol symbols.Symbol) symbolRecord {
	return symbolRecord{
		ID:       symbol.ID,
		Name:     symbol.Name,
		Type:     symbol.Type,
		Data:     symbol.Data,
		FolderID: symbol.FolderID,
	}
}

type createFolderRequest struct {
	Name string `json:"name"`
}

type updateFolderRequest struct {
	Name optional[string] `json:"name"`
}

type createSymbolRequest struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Data string `json:"data"`
}

type updateSymbolRequest struct {
	Name     optional[string] `json:"name"`
	Type     optional[string] `json:"type"`
	Data     optional[string] `json:"data"`
	FolderID optional[int64]  `json:"folderId"`
}

func (a *api) listFolders(ctx context.Context, _ int64, _ none) ([]symbolFolder, error) {
	list, err := a.Symbols.ListFolders(ctx)
	if err != nil {
		return nil, err
	}
	folders := make([]symbolFolder, len(list.Folders))
	for i, folder := range list.Folders {
		folders[i] = newSymbolFolder(folder)
	}
	return folders, nil
}

func (a *api) createFolder(ctx context.Context, _ int64, in createFolderRequest) (symbolFolder, error) {
	folder, err := a.Symbols.CreateFolder(ctx, in.Name)
	return newSymbolFolder(folder), err
}

func (a *api) getFolder(ctx context.Context, id int64, _ none) (symbolFolder, error) {
	folder, err := a.Symbols.GetFolder(ctx, id)
	return newSymbolFolder(folder), err
}

func (a *api) updateFolder(ctx context.Context, id int64, in updateFolderRequest) (symbolFolder, error) {
	folder, err := a.Symbols.UpdateFolder(ctx, id, symbols.FolderFields{Name: in.Name.pointer()})
	return newSymbolFolder(folder), err
}

func (a *api) deleteFolder(ctx context.Context, id int64, _ none) (messageResponse, error) {
	return messageResponse{"Folder deleted."}, a.Symbols.DeleteFolder(ctx, id)
}

// listSymbols writes a folder's symbols page by page as they are read, so that
// a large folder needs no more memory than a small one and a slow client holds
// no connection of the store.
func (a *api) listSymbols(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	page, err := a.symbolPage(r, id, 0)
	if err != nil {
		return err
	}
	if !page.More {
		return encode(w, http.StatusOK, newSymbolRecords(page))
	}
	w.Header().Set("Content-Type", "application/json")
	out := newRolling(w, a.IdleTimeout)
	separator := []byte{'['}
	for {
		if len(page.Symbols) > 0 { // what was to follow may be gone meanwhile
			part, err := json.Marshal(newSymbolRecords(page))
			if err != nil {
				a.breakOff(w, r, err)
			}
			if _, err := out.Write(append(separator, part[1:len(part)-1]...)); err != nil {
				a.breakOff(w, r, err)
			}
			separator = []byte{','}
		}
		if !page.More {
			break
		}
		last := page.Symbols[len(page.Symbols)-1].ID
		if page, err = a.symbolPage(r, id, last); err != nil {
			a.breakOff(w, r, err)
		}
	}
	out.Write([]byte{']'})
	out.end()
	return nil
}

func (a *api) symbolPage(r *http.Request, folderID, after int64) (symbols.Page, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	return a.Symbols.ListSymbols(ctx, folderID, after)
}

func newSymbolRecords(page symbols.Page) []symbolRecord {
	records := make([]symbolRecord, len(page.Symbols))
	for i, symbol := range page.Symbols {
		records[i] = newSymbolRecord(symbol)
	}
	return records
}

func (a *api) createSymbol(ctx context.Context, folderID int64, in createSymbolRequest) (symbolRecord, error) {
	symbol, err := a.Symbols.CreateSymbol(ctx, folderID, in.Name, in.Type, in.Data)
	return newSymbolRecord(symbol), err
}

func (a *api) getSymbol(ctx context.Context, id int64, _ none) (symbolRecord, error) {
	symbol, err := a.Symbols.GetSymbol(ctx, id)
	return newSymbolRecord(symbol), err
}

func (a *api) updateSymbol(ctx context.Context, id int64, in updateSymbolRequest) (symbolRecord, error) {
	symbol, err := a.Symbols.UpdateSymbol(ctx, id, symbols.SymbolFields{
		Name:     in.Name.pointer(),
		Type:     in.Type.pointer(),
		Data:     in.Data.pointer(),
		FolderID: in.FolderID.pointer(),
	})
	return newSymbolRecord(symbol), err
}

func (a *api) deleteSymbol(ctx context.Context, id int64, _ none) (messageResponse, error) {
	return messageResponse{"Symbol deleted."}, a.Symbols.DeleteSymbol(ctx, id)
}
