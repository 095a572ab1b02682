package httpapi

import (
	"errors"
	"fmt"
	"log/slog"

	"example.com/canvasback/exports"
	"example.com/canvasback/symbols/bundle"
)

type skippedItem struct {
	SourceFileURL string `json:"sourceFileUrl"`
	Reason        string `json:"reason"`
}

func newSkippedItem(skipped exports.Skipped) skippedItem {
	return skippedItem{SourceFileURL: skipped.SourceURL, Reason: skipped.Reason}
}

func skippedItems(list []exports.Skipped) []skippedItem {
	items := make([]skippedItem, len(list))
	for i, skipped := range list {
		items[i] = newSkippedItem(skipped)
	}
	return items
}

// isExpected reports whether an item was skipped without a failure of the server or an
// upstream.
func isExpected(err error) bool {
	_, notReady := errors.AsType[*exports.NotReadyError](err)
	return notReady || errors.Is(err, exports.ErrNotFound) || errors.Is(err, exports.ErrInvalid)
}

// summarize returns how many files could not be delivered, and why the first ones.
func summarize(list []exports.Skipped) (count int, first []string) {
	const maxNamed = 5
	for _, skipped := range list {
		if isExpected(skipped.Err) {
			continue
		}
		if count++; count <= maxNamed {
			first = append(first, fmt.Sprintf("%s: %.500v", exports.RedactURL(skipped.SourceURL), skipped.Err))
		}
	}
	return count, first
}

// logSkipped logs in one line why files of a batch were skipped, unless they are not
// registered. It names the first ones.
func (c *call) logSkipped(status int, list []exports.Skipped) {
	if c.disconnected() {
		return // they were skipped because the client has disconnected
	}
	if count, first := summarize(list); count > 0 {
		c.logFailure(slog.LevelWarn, "files skipped", status, "count", count, "first", first)
	}
}

type fileNote struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

func fileNotes(list []bundle.FileNote) []fileNote {
	notes := make([]fileNote, len(list))
	for i, note := range list {
		notes[i] = fileNote(note)
	}
	return notes
}
