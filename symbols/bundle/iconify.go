package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/picture"
)

// icon is an icon of an Iconify set, or an alias, which changes its parent.
type icon struct {
	Parent string   `json:"parent"`
	Body   string   `json:"body"`
	Left   *float64 `json:"left"`
	Top    *float64 `json:"top"`
	Width  *float64 `json:"width"`
	Height *float64 `json:"height"`
	Rotate int      `json:"rotate"` // quarters, clockwise
	HFlip  bool     `json:"hFlip"`
	VFlip  bool     `json:"vFlip"`
	Hidden *bool    `json:"hidden"`
}

// iconEntry is an icon of a set, or why it is none.
type iconEntry struct {
	icon
	err error
}

// UnmarshalJSON keeps the error, so that the others can be imported.
func (e *iconEntry) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &e.icon) != nil {
		e.err = fileError("not an icon: a value has the wrong type")
	}
	return nil
}

// icons are the icons or the aliases of a set.
type icons struct {
	byName map[string]iconEntry // nil if the set has no such field
	left   int                  // how many more may be read
}

// UnmarshalJSON reads one icon after the other: each takes many times its JSON.
func (i *icons) UnmarshalJSON(text []byte) error {
	entries := json.NewDecoder(bytes.NewReader(text))
	if start, _ := entries.Token(); start != json.Delim('{') {
		return nil
	}
	i.byName = make(map[string]iconEntry)
	for entries.More() {
		name, _ := entries.Token() // the JSON is valid
		var entry iconEntry
		if i.left--; i.left < 0 || entries.Decode(&entry) != nil {
			return ErrTooLarge
		}
		i.byName[name.(string)] = entry
	}
	return nil
}

// iconSet is a set of icons in the JSON of Iconify.
type iconSet struct {
	icon           // defaults
	Prefix  string `json:"prefix"`
	Icons   icons  `json:"icons"`
	Aliases icons  `json:"aliases"`
	Info    struct {
		Author  label `json:"author"`
		License label `json:"license"`
	} `json:"info"`
}

// label is an author or a license, which older sets have as a string.
type label struct{ Name, Title, SPDX string }

// UnmarshalJSON ignores what is neither an object nor a string.
func (l *label) UnmarshalJSON(text []byte) error {
	type object label
	if json.Unmarshal(text, (*object)(l)) != nil {
		json.Unmarshal(text, &l.Name)
	}
	return nil
}

// readIconify adds the symbols of an icon set, those with the names of aliases last.
func (r *reader) readIconify(file string, content []byte, folders []string) error {
	limit := r.options.Limits.Entries
	set := iconSet{Icons: icons{left: limit}, Aliases: icons{left: limit}}
	err := json.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), &set)
	switch {
	case errors.Is(err, ErrTooLarge):
		return tooManyEntries(limit)
	case err != nil || set.Prefix == "" || set.Icons.byName == nil:
		return r.addSymbol(file, symbols.NewSymbol{}, fileError("not an icon set: prefix or icons are missing"))
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(set.Icons.byName)), slices.Sorted(maps.Keys(set.Aliases.byName))) {
		found, err := set.find(name, 0)
		if found.Hidden != nil && *found.Hidden {
			if err := r.checkEntries(); err != nil {
				return err
			}
			r.contents.Ignored = append(r.contents.Ignored, FileNote{printable(name), "hidden icon"})
			continue
		}
		if _, isIcon := set.Icons.byName[name]; !isIcon { // a copy of the body
			if r.remaining -= int64(len(found.Body)); r.remaining < 0 {
				return tooLarge("the icon set is too large: its aliases repeat too much")
			}
		}
		var picture image
		if err == nil {
			picture, err = set.picture(name, found, folders)
		}
		if err := r.addPicture(name, picture, err); err != nil {
			return err
		}
	}
	return nil
}

// find returns an icon, with what its aliases change.
func (s *iconSet) find(name string, depth int) (icon, error) {
	const maxDepth = 10
	if found, ok := s.Icons.byName[name]; ok {
		return found.icon, found.err
	}
	alias, ok := s.Aliases.byName[name]
	if !ok || depth == maxDepth {
		return icon{}, fileError("the parent of this alias is missing")
	}
	found, err := s.find(alias.Parent, depth+1)
	found.Left, found.Top = cmp.Or(alias.Left, found.Left), cmp.Or(alias.Top, found.Top)
	found.Width, found.Height = cmp.Or(alias.Width, found.Width), cmp.Or(alias.Height, found.Height)
	found.Rotate += alias.Rotate
	found.HFlip, found.VFlip = found.HFlip != alias.HFlip, found.VFlip != alias.VFlip
	found.Hidden = cmp.Or(alias.Hidden, found.Hidden)
	return found, cmp.Or(alias.err, err)
}

func (s *iconSet) picture(name string, i icon, folders []string) (image, error) {
	left, top := *cmp.Or(i.Left, s.Left, new(0.0)), *cmp.Or(i.Top, s.Top, new(0.0)) // or the defaults of Iconify
	width, height := *cmp.Or(i.Width, s.Width, new(16.0)), *cmp.Or(i.Height, s.Height, new(16.0))
	body := i.Body
	if width <= 0 || height <= 0 || body == "" {
		return image{}, fileError("the icon is empty")
	}
	if i.HFlip {
		body = fmt.Sprintf(`<g transform="translate(%g 0) scale(-1 1)">%s</g>`, 2*left+width, body)
	}
	if i.VFlip {
		body = fmt.Sprintf(`<g transform="translate(0 %g) scale(1 -1)">%s</g>`, 2*top+height, body)
	}
	if quarters := (i.Rotate%4 + 4) % 4; quarters > 0 {
		// About the center; a quarter swaps width and height.
		x, y := left+width/2, top+height/2
		body = fmt.Sprintf(`<g transform="rotate(%d %g %g)">%s</g>`, 90*quarters, x, y, body)
		if quarters%2 == 1 {
			width, height = height, width
			left, top = x-width/2, y-height/2
		}
	}
	namespaces := `xmlns="` + picture.SVGNamespace + `"`
	if strings.Contains(body, "xlink:") {
		namespaces += ` xmlns:xlink="http://www.w3.org/1999/xlink"`
	}
	svg := fmt.Sprintf(`<svg %s width="%g" height="%g" viewBox="%g %g %g %g">%s</svg>`,
		namespaces, width, height, left, top, width, height, body)
	meta := map[string]any{"width": width, "height": height}
	if license := cmp.Or(s.Info.License.SPDX, s.Info.License.Title, s.Info.License.Name); license != "" {
		meta["license"] = fmt.Sprintf("%.255s", license) // each icon has it
	}
	if s.Info.Author.Name != "" {
		meta["author"] = fmt.Sprintf("%.255s", s.Info.Author.Name)
	}
	return image{name, picture.SVG, []byte(svg), folders, meta}, nil
}
