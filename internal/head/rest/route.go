package rest

import (
	"context"
	"net/http"
	"net/netip"
	"reflect"

	"golang.org/x/sync/semaphore"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// prefix is the path that all routes are below.
const prefix = "/api/v1"

// route describes one method of one path completely.
type route struct {
	id           string // operationId: a verb and a noun, which client generators name their methods by
	method, path string // path below prefix, with {wildcards}
	access       accessLevel
	summary      string // one sentence for the documents
	action       action
	query        []param
	header       []string  // request headers that the route evaluates
	outcomes     []outcome // responses, the usual one first
	errors       []drive.Kind

	idempotent        bool   // accepts an Idempotency-Key
	secret            bool   // requests or responses hold a secret: the stored response is encrypted, and never compressed
	probesContent     bool   // may reveal whether content is known, so its rate is limited like a POST
	longLived         bool   // may last as long as the client likes, so it takes no slot of its user
	beforeNewPassword bool   // allowed to a user who must set a new password first
	senders           bool   // allowed to a sender of a collect link, for own uploads
	bodyOptional      bool   // the JSON body may be absent
	maxBody           int64  // limit of the JSON body in bytes; 0: the constant maxBody
	createdPath       string // path above the created resource; a 201 gets a Location with it
}

// pattern returns the pattern of http.ServeMux: method and full path.
func (rt *route) pattern() string { return rt.method + " " + prefix + rt.path }

// above returns the path above the resource that a response of this status refers to; "" if the
// response gets no Location.
func (rt *route) above(status int) string {
	switch status {
	case http.StatusCreated:
		return rt.createdPath
	case http.StatusAccepted:
		for _, o := range rt.outcomes {
			if o.status == status && o.body == reflect.TypeFor[api.SubtreeOperation]() {
				return operationsPath
			}
		}
	}
	return ""
}

// accessLevel is the access that a route requires.
type accessLevel uint8

const (
	open accessLevel = iota // no authentication
	read                    // a token with this scope
	write
	admins // an administrator's token with the scope admin
)

// scope returns the token scope that the level needs; 0 for open routes.
func (a accessLevel) scope() drive.Scope {
	switch a {
	case read:
		return drive.ScopeRead
	case write:
		return drive.ScopeWrite
	case admins:
		return drive.ScopeAdmin
	case open:
	}
	return 0
}

// String returns the name of the scope for documents; "" for open routes.
func (a accessLevel) String() string { return [...]string{"", "read", "write", "admin"}[a] }

// outcome describes one response of a route.
type outcome struct {
	status      int
	body        reflect.Type // type of the JSON body; nil: no body
	bytes       bool         // the body is bytes, such as a file's content
	mediaType   string       // media type of the bytes; empty: any
	jsonLines   bool         // the body is JSON lines, each of type body
	textTypes   []string     // media types of the same data as text
	description string
}

// jsonOutcome describes a response with a JSON body of type T.
func jsonOutcome[T any](status int, when string) outcome {
	return outcome{status: status, body: reflect.TypeFor[T](), description: when}
}

// emptyOutcome declares a response without a body.
func emptyOutcome(status int, when string) outcome { return outcome{status: status, description: when} }

// action is a handler with the type of its request body.
type action struct {
	body      reflect.Type // type of the JSON body; nil: none
	raw       bool         // the body is bytes
	mediaType string       // media type of the bytes; empty: any
	run       func(ctx context.Context, c *call) (reply, error)
}

// withoutBody returns the action of a handler without a body.
func withoutBody(run func(context.Context, *call) (reply, error)) action { return action{run: run} }

// withRawBody returns the action of a handler that reads the body itself.
func withRawBody(run func(context.Context, *call) (reply, error)) action {
	return action{raw: true, run: run}
}

// withJSON returns the action of a handler with a JSON body, which is decoded before.
func withJSON[In any](run func(context.Context, *call, *In) (reply, error)) action {
	return action{body: reflect.TypeFor[In](), run: func(ctx context.Context, c *call) (reply, error) {
		var in In
		if err := c.decode(ctx, &in); err != nil {
			return reply{}, err
		}
		return run(ctx, c, &in)
	}}
}

// byID returns the action of a handler for the resource whose id is in the path.
func byID[ID ~[16]byte](run func(context.Context, *call, ID) (reply, error)) action {
	return withoutBody(func(ctx context.Context, c *call) (reply, error) {
		id, err := drive.ParseID[ID](c.r.PathValue("id"))
		if err != nil {
			return reply{}, err
		}
		return run(ctx, c, id)
	})
}

// byIDWithJSON returns an action like byID whose handler also gets the decoded JSON body.
func byIDWithJSON[ID ~[16]byte, In any](run func(context.Context, *call, ID, *In) (reply, error)) action {
	return withJSON(func(ctx context.Context, c *call, in *In) (reply, error) {
		id, err := drive.ParseID[ID](c.r.PathValue("id"))
		if err != nil {
			return reply{}, err
		}
		return run(ctx, c, id, in)
	})
}

// byNode returns the action of a handler for the node whose id, or "root", is in the path.
func byNode(in *files.Files, run func(context.Context, *call, drive.NodeID) (reply, error)) action {
	return withoutBody(func(ctx context.Context, c *call) (reply, error) {
		id, err := in.ParseNode(ctx, c.who, c.r.PathValue("id"))
		if err != nil {
			return reply{}, err
		}
		return run(ctx, c, id)
	})
}

// byNodeWithJSON returns an action like byNode whose handler also gets the decoded JSON body.
func byNodeWithJSON[In any](in *files.Files, run func(context.Context, *call, drive.NodeID, *In) (reply, error)) action {
	return withJSON(func(ctx context.Context, c *call, body *In) (reply, error) {
		id, err := in.ParseNode(ctx, c.who, c.r.PathValue("id"))
		if err != nil {
			return reply{}, err
		}
		return run(ctx, c, id, body)
	})
}

// table returns the declarations of all routes of the API. It registers nothing.
func table(opt Options, u uploads) []route {
	logins := sessions{opt.Sessions, opt.Users, opt.DB}
	provider := signOns{logins, opt.SignOn}
	self := profile{opt.Users, opt.Sessions, opt.Prepared, opt.Ledger, opt.DB, opt.Thumbs}
	tree := nodes{opt.Files}
	content := contents{opt.Files, opt.Links, opt.DownloadRedirect, newReaders(memoryLimit())}
	pictures := thumbnails{opt.Files, opt.Thumbs}
	public := publicShares{opt.Shares, opt.Files, content}
	common := spaces{opt.Spaces, opt.Files}
	wanted := collects{opt.Collects, opt.Files, opt.Uploads}
	var all []route
	for _, resource := range [][]route{
		logins.routes(),
		logins.tokenRoutes(),
		provider.routes(),
		self.preferenceRoutes(),
		provider.selfRoutes(),
		self.routes(),
		u.routes(),
		u.partRoutes(),
		u.fileRoutes(),
		tree.routes(),
		content.routes(),
		pictures.routes(),
		content.linkRoutes(),
		tree.versionRoutes(),
		tree.trashRoutes(),
		tree.changeRoutes(),
		activityRoutes{opt.History, server.NewLimiter[drive.UserID](maxActivityExports)}.routes(),
		newEvents(opt.History).routes(),
		webhooks{opt.Webhooks}.routes(),
		notices{opt.Notices}.routes(),
		operations{opt.Bulk, opt.Files}.routes(),
		tree.searchRoutes(),
		starRoutes{opt.Files, opt.Shelf}.routes(),
		common.routes(),
		common.grantRoutes(),
		groups{opt.Spaces}.routes(),
		shares{opt.Shares, opt.Files}.routes(),
		public.routes(),
		sharedZips{public, opt.Exports, server.NewLimiter[netip.Prefix](maxZips)}.routes(),
		batches{opt.Batches, opt.Files, semaphore.NewWeighted(readAheadMemory)}.routes(),
		archives{opt.Exports, opt.Files, server.NewLimiter[drive.UserID](maxArchives)}.routes(),
		exports{opt.Exports, opt.Files}.routes(),
		exportSchedules{opt.Exports, opt.Files}.routes(),
		bundles{opt.Intake}.routes(),
		documents{opt.Intake}.routes(),
		keyConflicts{opt.Conflicts}.routes(),
		sources{opt.Intake}.routes(),
		sharedThumbnails{public, pictures, opt.DB}.routes(),
		wanted.routes(),
		wanted.publicRoutes(),
		users{opt.Admin, opt.Now}.routes(),
		provider.adminRoutes(),
		handovers{opt.Handovers}.routes(),
		u.adminRoutes(),
		deadLetters{opt.DeadLetters}.routes(),
		inspection{opt.Timers, opt.TimerSteps, opt.Findings, opt.Status, opt.Growth, opt.Mail}.routes(),
		settings{opt.Settings}.routes(),
		migration{opt.Migration}.routes(),
	} {
		all = append(all, resource...)
	}
	return all
}
