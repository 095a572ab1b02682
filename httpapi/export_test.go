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
	for _, r := range newAPI(options).routes() {
		key := map[guard]string{adminKey: "x-admin-key", clientKey: "x-api-key"}[r.guard]
		list = append(list, Route{r.method, r.path, key, r.limit})
	}
	return list
}
