//go:build !linux && !darwin

package database

import "errors"

func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
