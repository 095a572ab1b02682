package httpapi

import (
	"bytes"
	"context"
	"io"

	"example.com/canvasback/symbols"
)

type updateSymbolsRequest struct {
	IDs        ids             `json:"ids"`
	FolderID   optional[int64] `json:"folderId"`
	AddTags    texts           `json:"addTags"`
	RemoveTags texts           `json:"removeTags"`
}

func (e symbolEndpoints) updateSymbols(ctx context.Context, t target, in updateSymbolsRequest) (reply, error) {
	updated, err := e.service(t.tenant).UpdateSymbols(ctx, in.IDs, symbols.BulkFields{
		FolderID:   in.FolderID.pointer(),
		AddTags:    in.AddTags,
		RemoveTags: in.RemoveTags,
		By:         t.by,
	})
	if err != nil {
		return reply{}, err
	}
	return jsonReply(struct {
		Updated int `json:"updated"`
	}{updated})
}

type deleteSymbolsRequest struct {
	IDs ids `json:"ids"`
}

func (e symbolEndpoints) deleteSymbols(ctx context.Context, t target, in deleteSymbolsRequest) (reply, error) {
	if err := e.service(t.tenant).DeleteSymbols(ctx, in.IDs, t.by); err != nil {
		return reply{}, err
	}
	return jsonReply(struct {
		Deleted int `json:"deleted"`
	}{len(in.IDs)})
}

type trashRecord struct {
	ID        int64  `json:"id"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	FolderID  int64  `json:"folderId"`
	Symbols   *int64 `json:"symbols"`
	DeletedAt string `json:"deletedAt"`
	DeletedBy *int64 `json:"deletedBy"`
}

func newTrashRecord(entry symbols.TrashEntry) trashRecord {
	record := trashRecord{
		ID: entry.ID, Kind: "symbol", Name: entry.Name, FolderID: entry.FolderID, DeletedAt: formatTime(entry.DeletedAt),
	}
	if entry.SymbolID == 0 {
		record.Kind, record.Symbols = "folder", &entry.Symbols
	}
	if entry.DeletedBy != 0 {
		record.DeletedBy = &entry.DeletedBy
	}
	return record
}

// listTrash writes the trash page by page, if the request has no limit.
func (e symbolEndpoints) listTrash(c *call) error {
	selected, err := c.page()
	if err != nil {
		return err
	}
	limited := selected.Limit > 0
	if !limited {
		selected.Limit = maxPageSize
	}
	page, err := e.trashPage(c, selected)
	if err != nil {
		return err
	}
	if limited && page.More {
		c.setLink(selected.Limit, page.Entries[len(page.Entries)-1].ID)
	}
	write := func(w io.Writer) error {
		separator := byte('[')
		for {
			for _, entry := range page.Entries {
				record, err := marshal(newTrashRecord(entry))
				if err != nil {
					return err
				}
				if _, err := w.Write(append([]byte{separator}, record...)); err != nil {
					return err
				}
				separator, selected.After = ',', entry.ID
			}
			if limited || !page.More {
				break
			}
			if page, err = e.trashPage(c, selected); err != nil {
				return err
			}
		}
		return closeList(w, separator)
	}
	if !limited && page.More {
		return c.streamJSON(write)
	}
	const perEntry = 2 << 10 // at most, with its JSON
	if err := c.count(int64(perEntry * len(page.Entries))); err != nil {
		return err
	}
	var body bytes.Buffer
	if err := write(&body); err != nil {
		return err
	}
	return c.sendCompressible(body.Bytes())
}

func (e symbolEndpoints) trashPage(c *call, selected page) (symbols.TrashPage, error) {
	ctx, cancel := c.storeContext()
	defer cancel()
	return e.service(c.tenant).ListTrash(ctx, symbols.Range(selected))
}

type restoreRequest struct {
	FolderID optional[int64] `json:"folderId"`
}

func (e symbolEndpoints) restore(ctx context.Context, t target, in restoreRequest) (reply, error) {
	if in.FolderID.set && in.FolderID.value < 1 {
		return reply{}, invalidRequest("folderId must be a positive number")
	}
	restored, err := e.service(t.tenant).Restore(ctx, t.id, in.FolderID.value, t.by)
	switch {
	case err != nil:
		return reply{}, err
	case restored.Folder != nil:
		return folderReply(*restored.Folder, nil)
	}
	return symbolReply(*restored.Symbol, nil)
}

func (e symbolEndpoints) deleteTrash(ctx context.Context, t target) (reply, error) {
	return messageReply("Deleted for good.", e.service(t.tenant).DeleteTrash(ctx, t.id))
}

// closeList ends a list of records, of which the next would have had a separator.
func closeList(w io.Writer, separator byte) error {
	end := "]"
	if separator == '[' {
		end = "[]"
	}
	_, err := io.WriteString(w, end)
	return err
}
