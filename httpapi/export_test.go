package httpapi

// Route is a row of the table of routes, for tests that take every one.
type Route struct {
	Method, Path string
	Key          string // the header that it asks for, or empty
	Limit        int64
}

// Routes returns the rows that the options lead to.
func Routes(options Options) []Route {
	var list []Route
	a, err := New(options)
	if err != nil {
		panic(err)
	}
	for _, r := range a.routes() {
		key := map[auth]string{adminKey: "x-admin-key", clientKey: "x-api-key"}[r.auth]
		list = append(list, Route{r.method, r.path, key, r.limit})
	}
	return list
}
