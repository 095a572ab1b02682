// Package keyrecord is what the drivers share about client keys.
package keyrecord

import (
	"slices"

	"example.com/canvasback/keys"
)

// Change calls change with keys as they are stored, and returns those that it has
// modified. It undoes changes of what an update does not store.
func Change(list []keys.Key, change func([]keys.Key) error) (modified []keys.Key, err error) {
	stored := slices.Clone(list)
	if err := change(list); err != nil {
		return nil, err
	}
	for i, previous := range stored {
		key := &list[i]
		key.ID, key.CreatedAt = previous.ID, previous.CreatedAt
		key.LastUsedAt, key.UseCount = previous.LastUsedAt, previous.UseCount
		if *key != previous {
			modified = append(modified, *key)
		}
	}
	return modified, nil
}
