package httpapi

import (
	"time"

	"example.com/canvasback/exports"
)

// touch adds resources to the observation of the request.
func (c *call) touch(resources ...Resource) {
	if c.api.options.Observe != nil {
		c.touched = append(c.touched, resources...)
	}
}

// touchExport adds the export of a source, which has the id 0 if there is none.
func (c *call) touchExport(source string, id int64) {
	if c.api.options.Observe != nil { // redacting takes time
		c.touch(Resource{Kind: "export", ID: id, URL: exports.RedactURL(source)})
	}
}

// touchItems adds the exports of a batch.
func (c *call) touchItems(items []exports.BatchItem) {
	for _, item := range items {
		id := int64(0)
		if item.Export != nil {
			id = item.Export.ID
		}
		c.touchExport(item.SourceURL, id)
	}
}

// observe calls Observe if it is set. A request that RequireClientKey has passed
// to the API itself is observed once, with what the API knows.
func (c *call) observe() {
	if c.api.options.Observe == nil {
		return
	}
	if outer := c.outer; outer != nil && outer.api == c.api && outer.observes {
		outer.route, outer.code, outer.actor, outer.touched = c.route, c.code, c.actor, c.touched
		outer.failure = c.failure
		return
	}
	c.api.options.Observe(c.r.Context(), Observation{
		Method:    knownMethod(c.r.Method),
		Route:     c.route,
		Status:    c.w.status,
		Code:      c.code,
		Bytes:     c.w.bytes,
		Start:     c.start,
		Duration:  time.Since(c.start),
		Aborted:   c.aborted,
		KeyID:     c.keyID,
		TokenID:   c.tokenID,
		Actor:     c.actorName(),
		ClientIP:  c.clientIP(),
		RequestID: c.requestID(),
		Error:     c.failure,
		Resources: c.touched,
	})
}
