// Package powerloss simulates power losses under SQLite, by a file system that loses
// writes which were not synced.
package powerloss
