package httpapi

import (
	"errors"
	"strings"
	"time"

	"example.com/canvasback/keys"
)

type dayUsage struct {
	Day      string `json:"day"`
	Requests int64  `json:"requests"`
}

func dayUsages(list []keys.DayUsage) []dayUsage {
	days := make([]dayUsage, len(list))
	for i, usage := range list {
		days[i] = dayUsage{usage.Day.Format(time.DateOnly), usage.Requests}
	}
	return days
}

type keyUsage struct {
	ID   int64      `json:"id"`
	Days []dayUsage `json:"days"`
}

func (e keyEndpoints) keyUsage(c *call) error {
	list, err := e.usage(c, keys.UsageFilter{IDs: []int64{c.id}})
	if errors.Is(err, keys.ErrNotFound) {
		return keys.ErrNotFound
	}
	if err != nil {
		return err
	}
	return c.sendCompressible(marshal(dayUsages(list[0].Days)))
}

// totalUsage responds with the usage of several keys, or their sum.
func (e keyEndpoints) totalUsage(c *call) error {
	owner, err := c.query().pointer("owner")
	if err != nil {
		return err
	}
	ids, err := c.ids()
	if err != nil {
		return err
	}
	list, err := e.usage(c, keys.UsageFilter{IDs: ids, Owner: owner})
	if err != nil {
		return err
	}
	if ids == nil {
		return c.sendCompressible(marshal(dayUsages(list[0].Days)))
	}
	out := make([]keyUsage, len(list))
	for i, usage := range list {
		out[i] = keyUsage{usage.ID, dayUsages(usage.Days)}
	}
	return c.sendCompressible(marshal(out))
}

// usage returns the usage of the parameter days.
func (e keyEndpoints) usage(c *call, filter keys.UsageFilter) ([]keys.KeyUsage, error) {
	days, err := c.query().number("days", 1, 400)
	if err != nil {
		return nil, err
	}
	filter.Days = int(days)
	ctx, cancel := c.storeContext()
	defer cancel()
	return e.service.Usage(ctx, filter)
}

// ids returns the parameter ids, or nil if the request does not have it.
func (c *call) ids() ([]int64, error) {
	text, ok, err := c.query().get("ids")
	if err != nil || !ok {
		return nil, err
	}
	var ids []int64
	for part := range strings.SplitSeq(text, ",") {
		id, ok := parseNumber(part)
		if !ok {
			return nil, invalidRequest("ids must be positive whole numbers, separated by commas")
		}
		ids = append(ids, id)
	}
	return ids, nil
}
