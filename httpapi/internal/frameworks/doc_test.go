// Package frameworks tests package httpapi inside gin, echo and chi, and with
// OpenTelemetry. It is a module of its own, so that importers of Canvasback do not
// depend on them.
package frameworks
