package httpapi

import "time"

// touch adds resources to the observation of the request.
func (c *call) touch(resources ...Resource) {
	if c.api.options.Observe != nil {
		c.touched = append(c.touched, resources...)
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
