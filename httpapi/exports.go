package httpapi

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.com/canvasback/exports"
)

type registerExportRequest struct {
	SourceFileURL string            `json:"sourceFileUrl"`
	ExportedURL   string            `json:"exportedUrl"`
	FileName      optional[*string] `json:"fileName"`
}

type registerExportResponse struct {
	Success bool         `json:"success"`
	Record  exportRecord `json:"record"`
}

type exportRecord struct {
	ID            int64   `json:"id"`
	SourceFileURL string  `json:"sourceFileUrl"`
	ExportedURL   string  `json:"exportedUrl"`
	FileName      *string `json:"fileName"`
	CreatedAt     string  `json:"createdAt"`
	UpdatedAt     string  `json:"updatedAt"`
}

func newExportRecord(export exports.Export) exportRecord {
	record := exportRecord{
		ID:            export.ID,
		SourceFileURL: export.SourceURL,
		ExportedURL:   export.ExportedURL,
		CreatedAt:     formatTime(export.CreatedAt),
		UpdatedAt:     formatTime(export.UpdatedAt),
	}
	if export.FileName != "" {
		record.FileName = &export.FileName
	}
	return record
}

// exportEndpoints are the endpoints of exports.
type exportEndpoints struct {
	service *exports.Service
	ownOnly bool // a client key registers only exports that are its own
}

func (e exportEndpoints) register(c *call) error {
	var in registerExportRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	registration := exports.Registration{
		SourceURL:   in.SourceFileURL,
		ExportedURL: in.ExportedURL,
		FileName:    in.FileName.value,
		By:          c.actorName(),
		OwnOnly:     e.ownOnly,
	}
	if in.FileName.set && in.FileName.value == nil {
		registration.FileName = new(string)
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	export, created, err := e.service.Register(ctx, registration)
	c.touchExport(in.SourceFileURL, export.ID)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return c.encode(status, registerExportResponse{Success: true, Record: newExportRecord(export)})
}

type singleExportRequest struct {
	SourceFileURL string `json:"sourceFileUrl"`
}

type singleExportURLResponse struct {
	Success     bool   `json:"success"`
	ExportedURL string `json:"exportedUrl"`
}

func (e exportEndpoints) download(c *call) error {
	urls, err := wantsURLs(c.r.URL)
	if err != nil {
		return err
	}
	var in singleExportRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	c.memory.Shrink(int64(len(in.SourceFileURL)))
	ctx, cancel := c.storeContext()
	defer cancel()
	export, err := e.service.Find(ctx, in.SourceFileURL)
	c.touchExport(in.SourceFileURL, export.ID)
	if err != nil {
		return err
	}
	if urls {
		public, err := e.service.PublicURL(c.r.Context(), export)
		if err != nil {
			return err
		}
		return c.encode(http.StatusOK, singleExportURLResponse{Success: true, ExportedURL: public})
	}
	download, err := e.service.Open(c.r.Context(), export)
	if err != nil {
		return err
	}
	defer download.Close()
	return c.sendFile(download)
}

// sendFile responds with a file. Its content type is never JSON, so that no
// client takes it for a response of the API.
func (c *call) sendFile(download *exports.Download) error {
	start := time.Now()
	if err := download.Prefetch(prefetchBytes); err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Content-Type", downloadContentType(download.Type))
	header.Set("Content-Disposition", disposition("attachment", download.Name))
	if download.Size >= 0 {
		header.Set("Content-Length", strconv.FormatInt(download.Size, 10))
	}
	if !download.Modified.IsZero() {
		header.Set("Last-Modified", download.Modified.UTC().Format(http.TimeFormat))
	}
	if download.ETag != "" {
		header.Set("ETag", download.ETag)
	}
	c.w.WriteHeader(http.StatusOK)
	out := c.newStream(&c.w)
	flushIfSlow(out, start)
	n, err := out.Copy(download.Body, download.Size)
	if err == nil && download.Size >= 0 && n != download.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		c.abort(err)
	}
	out.Finish()
	return nil
}

// prefetchBytes is how much of a file is read before the response begins. It
// does not delay the client, because net/http buffers as much.
const prefetchBytes = 4 << 10

// downloadContentType returns the Content-Type of a download: that of the file
// unless it is invalid or JSON.
func downloadContentType(contentType string) string {
	const unknown = "application/octet-stream"
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(mediaType, "/") || strings.HasSuffix(mediaType, "json") {
		return unknown
	}
	return contentType
}

type batchExportRequest struct {
	Items []singleExportRequest `json:"items"`
}

func (in *batchExportRequest) sources() []string {
	sources := make([]string, len(in.Items))
	for i, item := range in.Items {
		sources[i] = item.SourceFileURL
	}
	return sources
}

// size returns how many bytes the sources have.
func (in *batchExportRequest) size() (bytes int64) {
	for _, item := range in.Items {
		bytes += int64(len(item.SourceFileURL))
	}
	return bytes
}

type batchExportURLsResponse struct {
	Success      bool          `json:"success"`
	ExportedURLs []string      `json:"exportedUrls"`
	Skipped      []skippedItem `json:"skipped"`
}

func (e exportEndpoints) downloadBatch(c *call) error {
	urls, err := wantsURLs(c.r.URL)
	if err != nil {
		return err
	}
	var in batchExportRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	c.memory.Shrink(in.size())
	ctx, cancel := c.storeContext()
	defer cancel()
	items, err := e.service.FindBatch(ctx, in.sources())
	if err != nil {
		return err
	}
	c.touchItems(items)
	if urls {
		list, skipped, err := e.service.PublicURLs(c.r.Context(), items)
		if err != nil {
			return err
		}
		c.logSkipped(http.StatusOK, skipped)
		return c.encode(http.StatusOK, batchExportURLsResponse{Success: true, ExportedURLs: list, Skipped: skippedItems(skipped)})
	}
	return e.sendBatch(c, items)
}

// sendBatch responds with the zip of a batch.
func (e exportEndpoints) sendBatch(c *call, items []exports.BatchItem) error {
	start := time.Now()
	batch, err := e.service.OpenBatch(c.r.Context(), items)
	if err != nil {
		return err
	}
	defer batch.Close()
	header := c.w.Header()
	header.Set("Content-Type", "application/zip")
	header.Set("Content-Disposition", disposition("attachment", exports.BatchName))
	if size := batch.Size(); size >= 0 {
		header.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	c.w.WriteHeader(http.StatusOK)
	out := c.newStream(&c.w)
	flushIfSlow(out, start)
	err = batch.WriteZip(out, out.Flush)
	c.logSkipped(http.StatusOK, batch.Skipped())
	if err != nil {
		c.abort(err)
	}
	out.Finish()
	return nil
}

// wantsURLs parses the query parameter responseType.
func wantsURLs(u *url.URL) (bool, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return false, invalidRequest("query is malformed")
	}
	switch values := query["responseType"]; {
	case len(values) == 0, len(values) == 1 && values[0] == "":
		return false, nil
	case len(values) == 1 && values[0] == "urls":
		return true, nil
	}
	return false, invalidRequest(`responseType must be "urls" or absent`)
}

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

// logSkipped logs in one line why files of a batch were skipped, unless they are not
// registered. It names the first ones.
func (c *call) logSkipped(status int, list []exports.Skipped) {
	const maxNamed = 5
	if c.disconnected() {
		return // they were skipped because the client has disconnected
	}
	count := 0
	var named []string
	for _, skipped := range list {
		if errors.Is(skipped.Err, exports.ErrNotFound) {
			continue
		}
		if count++; count <= maxNamed {
			named = append(named, fmt.Sprintf("%s: %.500v", exports.RedactURL(skipped.SourceURL), skipped.Err))
		}
	}
	if count > 0 {
		c.logFailure(slog.LevelWarn, "files skipped", status, "count", count, "first", named)
	}
}
