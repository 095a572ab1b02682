//go:build unix && !linux

package pgtest

func memoryDir() string { return "" }
