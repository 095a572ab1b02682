package httpapi

import (
	"context"

	"example.com/canvasback/symbols"
)

type updateSymbolsRequest struct {
	IDs        ids             `json:"ids"`
	FolderID   optional[int64] `json:"folderId"`
	AddTags    texts           `json:"addTags"`
	RemoveTags texts           `json:"removeTags"`
}

func (e symbolEndpoints) updateSymbols(_ context.Context, c *call, in updateSymbolsRequest) (reply, error) {
	c.touch("symbol", in.IDs...)
	c.touch("folder", in.FolderID.list()...)
	return c.slowly(func(ctx context.Context) (reply, error) {
		updated, err := e.all.Tenant(c.tenant).UpdateSymbols(ctx, in.IDs, symbols.BulkFields{
			FolderID:   in.FolderID.pointer(),
			AddTags:    in.AddTags,
			RemoveTags: in.RemoveTags,
			By:         c.keyID,
		})
		return countReply("updated", updated, err)
	})
}

func (e symbolEndpoints) deleteSymbols(_ context.Context, c *call, in idsRequest) (reply, error) {
	c.touch("symbol", in.IDs...)
	return c.slowly(func(ctx context.Context) (reply, error) {
		return countReply("deleted", len(in.IDs), e.all.Tenant(c.tenant).DeleteSymbols(ctx, in.IDs, c.keyID))
	})
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

func (e symbolEndpoints) listTrash(c *call) error {
	return sendPages(c, pages[symbols.TrashEntry]{
		read: func(ctx context.Context, selected page) ([]symbols.TrashEntry, bool, error) {
			list, err := e.all.Tenant(c.tenant).ListTrash(ctx, symbols.Range(selected))
			return list.Entries, list.More, err
		},
		append: func(dst []byte, entry *symbols.TrashEntry) []byte {
			record := trashRecord{
				ID: entry.ID, Kind: "symbol", Name: entry.Name, FolderID: entry.FolderID,
				DeletedAt: formatTime(entry.DeletedAt), DeletedBy: orNull(entry.DeletedBy, entry.DeletedBy != 0),
			}
			if entry.SymbolID == 0 {
				record.Kind, record.Symbols = "folder", &entry.Symbols
			}
			return append(dst, marshal(record)...)
		},
		id:     func(entry *symbols.TrashEntry) int64 { return entry.ID },
		size:   func(*symbols.TrashEntry) int64 { return 2 << 10 },
		atOnce: maxPageSize,
	})
}

type restoreRequest struct {
	FolderID optional[int64] `json:"folderId"`
}

func (e symbolEndpoints) restore(ctx context.Context, c *call, in restoreRequest) (reply, error) {
	c.touch("folder", in.FolderID.list()...)
	list, err := e.all.Tenant(c.tenant).ListTrash(ctx, symbols.Range{After: c.id - 1, Limit: 1})
	if err != nil {
		return reply{}, err
	}
	for _, entry := range list.Entries {
		if entry.ID == c.id && entry.SymbolID != 0 { // the store reads it, and it is encoded
			err = c.reserveForTurn(c.memory.Size() + 2*entry.Size)
		}
	}
	if err != nil {
		return reply{}, err
	}
	return c.slowly(func(ctx context.Context) (reply, error) {
		restored, err := e.all.Tenant(c.tenant).Restore(ctx, c.id, in.FolderID.pointer(), c.keyID)
		switch {
		case err != nil:
			return reply{}, err
		case restored.Folder != nil:
			return folderReply(*restored.Folder, nil)
		}
		return symbolReply(*restored.Symbol, nil)
	})
}

func (e symbolEndpoints) deleteTrash(ctx context.Context, c *call) (reply, error) {
	return messageReply("Deleted for good.", e.all.Tenant(c.tenant).DeleteTrash(ctx, c.id))
}
