package httpapi

// Route is a row of the route table.
type Route struct {
	Method, Path string
	Key          string // the required header, or empty
	Own          bool   // the client key is required even if client routes are open
	Scope        string // that the client key needs, or empty
	Limit        int64
}

// Routes returns the route table for options.
func Routes(options *Options) []Route {
	var list []Route
	a, err := New(options)
	if err != nil {
		panic(err)
	}
	for _, r := range a.routes() {
		key := map[credential]string{adminKey: "x-admin-key", clientKey: "x-api-key", ownKey: "x-api-key", registerKey: "register"}[r.auth]
		list = append(list, Route{r.method, r.path, key, r.auth == ownKey, r.scope, r.limit})
	}
	return list
}

// AppendKey is appendKey.
var AppendKey = appendKey
