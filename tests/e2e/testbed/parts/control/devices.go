package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscale.com/net/tsaddr"
	"tailscale.com/tailcfg"
	"tailscale.com/tstest/integration/testcontrol"
	"tailscale.com/types/key"
)

// devices makes a tailnet of testcontrol, which takes any client, lets two have one name, and forgets none. Another
// process, the keeper, judges auth keys and has the list of devices; this carries what it says over to testcontrol.
type devices struct {
	server   *testcontrol.Server
	handlers http.Handler // testcontrol's own
	keeper   *url.URL

	// mu is held by whoever changes nodes: testcontrol replaces a node whole.
	mu      sync.Mutex
	clients map[tailcfg.StableNodeID]*client // guarded by mu

	// turn guards next, the look at the keeper that hasn't begun yet, if there is one. It is taken after mu.
	turn sync.Mutex
	next *look

	services atomic.Pointer[[]service] // replaced by whoever holds mu
	policy   atomic.Pointer[policy]    // likewise
	logins   sync.Map                  // login names by tailcfg.UserID
}

// look is a look at the keeper for several requests. The error is there when done is closed.
type look struct {
	done chan struct{}
	err  error
}

// device is a device as the keeper has it: its name is without the last dot, its routes are those that lead to it. Its
// user is empty if it has tags.
type device struct {
	NodeID tailcfg.StableNodeID `json:"nodeId"`
	Name   string               `json:"name"`
	User   string               `json:"user"`
	Tags   []string             `json:"tags"`
	Routes []netip.Prefix       `json:"routes"`
}

func (d device) label() string {
	label, _, _ := strings.Cut(d.Name, ".")
	return label
}

// login returns the login name of the device's user. Like Tailscale, it names the user of a tagged device after the
// device.
func (d device) login() string { return cmp.Or(d.User, d.Name) }

// newDevices puts itself before the handlers of server, which has answered a request already.
//
// What clients send arrives over Noise, and testcontrol looks into it with a mux of its own, which nothing else leads
// to: hence the reach for an unexported field, of a version that go.mod pins.
func newDevices(server *testcontrol.Server, keeper *url.URL) *devices {
	place := (**http.ServeMux)(reflect.ValueOf(server).Elem().FieldByName("mux").Addr().UnsafePointer())
	d := &devices{server: server, handlers: *place, keeper: keeper, clients: map[tailcfg.StableNodeID]*client{}}
	d.services.Store(&[]service{})
	d.policy.Store(&policy{HTTPS: true})
	mux := http.NewServeMux() // other paths are not found: testcontrol would end the process
	for _, path := range []string{"/key", "/ts2021", "/generate_204", "/c2n/", "/machine/update-health"} {
		mux.Handle(path, d.handlers)
	}
	mux.HandleFunc("/machine/register", d.register)
	mux.HandleFunc("/machine/map", d.serveMap)
	mux.HandleFunc("/machine/set-dns", d.setDNS)
	*place = mux
	return d
}

// register lets a client in that has a node key of a device, or an auth key that the keeper takes.
func (d *devices) register(w http.ResponseWriter, r *http.Request) {
	var request tailcfg.RegisterRequest
	if !decode(w, r, &request) {
		return
	}
	if request.Followup != "" {
		<-r.Context().Done() // nobody logs in by a browser
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.server.Node(request.NodeKey)
	switch {
	case node != nil && node.Expired:
		json.NewEncoder(w).Encode(tailcfg.RegisterResponse{NodeKeyExpired: true}) // it returns with another key
	case node != nil:
		d.answer(w, d.registered(r, &request), d.loginOf(node))
	case request.Auth == nil || request.Auth.AuthKey == "":
		json.NewEncoder(w).Encode(tailcfg.RegisterResponse{AuthURL: d.server.BaseURL() + "/login"})
	default:
		d.join(w, r, &request)
	}
}

// join makes a new device of a client.
func (d *devices) join(w http.ResponseWriter, r *http.Request, request *tailcfg.RegisterRequest) {
	id := d.server.NumNodes() + 1 // as testcontrol numbers them, under our lock
	ipv4 := netip.AddrFrom4([4]byte{100, 64, byte(id >> 8), byte(id)})
	joining := map[string]any{
		"authKey":   request.Auth.AuthKey,
		"hostname":  request.Hostinfo.Hostname,
		"nodeId":    fmt.Sprintf("TESTCTRL%08x", id),
		"addresses": []netip.Addr{ipv4, tsaddr.Tailscale4To6(ipv4)},
	}
	var joined device
	if err := d.ask("/testbed/join", joining, &joined); err != nil {
		json.NewEncoder(w).Encode(tailcfg.RegisterResponse{Error: err.Error()})
		return
	}
	request.OldNodeKey = key.NodePublic{} // a new device, and not the old one with another key
	request.Hostinfo.Hostname = joined.label()
	text := d.registered(r, request)
	d.apply(d.server.Node(request.NodeKey), joined) // before the client has an answer: it asks for its tags at once
	d.answer(w, text, joined.login())
}

// registered lets testcontrol register a client, and returns its answer.
func (d *devices) registered(r *http.Request, request *tailcfg.RegisterRequest) []byte {
	answer := httptest.NewRecorder()
	d.handlers.ServeHTTP(answer, withBody(r, request))
	return answer.Body.Bytes()
}

// loginOf returns the login name of the user of node.
func (d *devices) loginOf(node *tailcfg.Node) string {
	if login, ok := d.logins.Load(node.User); ok {
		return login.(string)
	}
	return strings.TrimSuffix(node.Name, ".")
}

// answer passes testcontrol's answer on to a client, with the login name of the client's user.
func (d *devices) answer(w http.ResponseWriter, text []byte, login string) {
	var response tailcfg.RegisterResponse
	if err := json.Unmarshal(text, &response); err != nil {
		http.Error(w, string(text), http.StatusBadGateway)
		return
	}
	response.Login.LoginName = login
	json.NewEncoder(w).Encode(response)
}

// serveMap tells the keeper what a client reports and makes that real, and tells testcontrol the hostname that the
// keeper gave: testcontrol derives the domain of a node's certificate from it.
func (d *devices) serveMap(w http.ResponseWriter, r *http.Request) {
	var request tailcfg.MapRequest
	if !decode(w, r, &request) {
		return
	}
	if request.Stream { // it lasts, and changes no node
		d.stream(w, r, &request)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if node := d.server.Node(request.NodeKey); node != nil && !node.Expired && request.Hostinfo != nil {
		var known device
		report := map[string]any{
			"nodeId":   node.StableID,
			"hostname": request.Hostinfo.Hostname,
			"routes":   request.Hostinfo.RoutableIPs,
		}
		err := d.ask("/testbed/report", report, &known)
		if err == nil {
			err = d.follow()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		request.Hostinfo.Hostname = known.label()
		d.noteServices(node, request.Hostinfo.ServicesHash)
	}
	d.handlers.ServeHTTP(w, withBody(r, &request))
}

// api passes requests on to the keeper's management API; an answer waits until testcontrol knows of the change.
func (d *devices) api() http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(d.keeper)
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.Request.Method == http.MethodGet {
			return nil
		}
		return d.catchUp()
	}
	return proxy
}

// catchUp waits until testcontrol knows of what the keeper has now. Requests that come while it waits share its look:
// an operator may change hundreds of Services at once.
func (d *devices) catchUp() error {
	d.turn.Lock()
	shared := d.next
	if shared == nil {
		shared = &look{done: make(chan struct{})}
		d.next = shared
		go d.takeLook(shared)
	}
	d.turn.Unlock()
	<-shared.done
	return shared.err
}

func (d *devices) takeLook(shared *look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn.Lock()
	d.next = nil // it begins: a later request needs another one
	d.turn.Unlock()
	shared.err = d.follow()
	close(shared.done)
}

// follow makes testcontrol's nodes what the keeper's devices are, and its Services those of the keeper; mu is held.
func (d *devices) follow() error {
	var known struct {
		Devices  []device  `json:"devices"`
		Services []service `json:"services"`
		Policy   policy    `json:"policy"`
	}
	if err := d.ask("/testbed/tailnet", nil, &known); err != nil {
		return err
	}
	for _, node := range d.server.AllNodes() {
		isIt := func(one device) bool { return one.NodeID == node.StableID }
		if i := slices.IndexFunc(known.Devices, isIt); i >= 0 {
			d.apply(node, known.Devices[i])
		} else if !node.Expired {
			d.expel(node)
		}
	}
	d.followPolicy(known.Policy)
	return d.followServices(known.Services)
}

// apply gives node the name, the tags and the routes of its device, and its user the login name.
func (d *devices) apply(node *tailcfg.Node, known device) {
	d.logins.Store(node.User, known.login())
	sameRoutes := slices.Equal(node.PrimaryRoutes, known.Routes)
	if node.Name == known.Name+"." && slices.Equal(node.Tags, known.Tags) && sameRoutes {
		return
	}
	info := node.Hostinfo.AsStruct()
	info.Hostname = known.label()
	node.Hostinfo = info.View()
	node.Name = known.Name + "."
	node.Tags = known.Tags
	node.PrimaryRoutes = known.Routes
	d.server.UpdateNode(node)
	if !sameRoutes {
		d.server.SetSubnetRoutes(node.Key, known.Routes) // what others are told comes from here
	}
}

// expel logs node out, and leaves nothing of it that others could reach. What is left has to stay, as testcontrol
// numbers nodes by their count.
func (d *devices) expel(node *tailcfg.Node) {
	d.server.UpdateNode(&tailcfg.Node{
		ID:        node.ID,
		StableID:  node.StableID,
		User:      node.User,
		Machine:   node.Machine,
		Key:       node.Key,
		Hostinfo:  (&tailcfg.Hostinfo{}).View(),
		Expired:   true,
		KeyExpiry: time.Unix(1, 0),
	})
	d.server.SetSubnetRoutes(node.Key, nil)
}

// list shows testcontrol's nodes, those of deleted devices too.
func (d *devices) list(w http.ResponseWriter, _ *http.Request) {
	json.NewEncoder(w).Encode(d.server.AllNodes())
}

// ask posts a question to the keeper and decodes the answer; an error is what the keeper says.
func (d *devices) ask(path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Post(d.keeper.JoinPath(path).String(), "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s", text)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func decode(w http.ResponseWriter, r *http.Request, request any) bool {
	if err := json.NewDecoder(r.Body).Decode(request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// withBody returns r with request as its body.
func withBody(r *http.Request, request any) *http.Request {
	body, err := json.Marshal(request)
	if err != nil {
		panic(err) // it was JSON before
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}
