package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"tailscale.com/tailcfg"
	"tailscale.com/util/zstdframe"
)

// This file adds Tailscale Services to testcontrol, which has none. The keeper has the list of Services, approves their
// hosts, and chooses one host of each that gets the traffic. Here we ask clients what they host, and tell clients what
// the keeper says: in a map response, as Tailscale's control server does.

const (
	// A device whose map stream ended counts as connected for this long: it may only have opened another one.
	goneAfter = 10 * time.Second
	// A client that reports other Services than before is asked for them at most for this long.
	askFor = time.Minute
)

// service is a Tailscale Service as the keeper has it. Hosts are the devices that are approved. Primary is the host that
// gets the traffic, or empty.
type service struct {
	Name    tailcfg.ServiceName    `json:"name"`
	DNSName string                 `json:"dnsName"` // without the last dot
	Addrs   []netip.Addr           `json:"addrs"`
	Hosts   []tailcfg.StableNodeID `json:"hosts"`
	Primary tailcfg.StableNodeID   `json:"primary"`
}

// client is the connection of a device.
type client struct {
	streams int         // map streams that are open
	gone    *time.Timer // ends the connection, some time after the last stream has ended
	hash    string      // stands for the Services that the device has last reported
	hosted  string      // what the device was last told about Services that it may host
}

// client returns what is known about the connection of a device; mu is held.
func (d *devices) client(id tailcfg.StableNodeID) *client {
	if d.clients[id] == nil {
		d.clients[id] = &client{}
	}
	return d.clients[id]
}

// stream serves a map stream, and adds to each response in it what testcontrol doesn't know.
func (d *devices) stream(w http.ResponseWriter, r *http.Request, request *tailcfg.MapRequest) {
	if node := d.server.Node(request.NodeKey); node != nil {
		d.opened(node.StableID)
		defer d.closed(node.StableID)
		request.Compress = "" // the writer compresses
		w = &mapWriter{ResponseWriter: w, change: d.add}
	}
	d.handlers.ServeHTTP(w, withBody(r, request))
}

func (d *devices) opened(id tailcfg.StableNodeID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.client(id)
	known.streams++
	if known.gone != nil {
		known.gone.Stop()
	}
	d.setConnected(id, true)
}

func (d *devices) closed(id tailcfg.StableNodeID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.client(id)
	known.streams--
	if known.streams > 0 {
		return
	}
	known.gone = time.AfterFunc(goneAfter, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if known.streams == 0 {
			d.setConnected(id, false)
		}
	})
}

// setConnected tells the keeper whether a device is connected; mu is held.
func (d *devices) setConnected(id tailcfg.StableNodeID, connected bool) {
	d.tell("/testbed/connected", map[string]any{"nodeId": id, "connected": connected})
}

// tell tells the keeper something about a device, and makes real what follows from it; mu is held.
func (d *devices) tell(path string, report any) {
	var nothing struct{}
	err := d.ask(path, report, &nothing)
	if err == nil {
		err = d.follow()
	}
	if err != nil {
		log.Printf("%s: %v", path, err)
	}
}

// noteServices takes the hash of the Services that a device hosts from its report, and asks the device for them if they
// have changed; mu is held.
func (d *devices) noteServices(node *tailcfg.Node, hash string) {
	if known := d.client(node.StableID); known.hash != hash {
		known.hash = hash
		go d.fetchServices(node, hash)
	}
}

// fetchServices asks a device for the Services that it hosts, and tells the keeper. The question travels on the map
// stream, which may not be open yet; and a response outside of a stream may swallow it. So it asks again and again. It
// must not hold mu meanwhile: the device may need another answer before it can give this one.
func (d *devices) fetchServices(node *tailcfg.Node, hash string) {
	end := time.Now().Add(askFor)
	found, err := d.askServices(node)
	for err != nil && time.Now().Before(end) {
		time.Sleep(100 * time.Millisecond)
		found, err = d.askServices(node)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.client(node.StableID)
	if known.hash != hash {
		return // a later report has led to a question of its own
	}
	if err != nil {
		log.Printf("Services of %s: %v", node.Name, err)
		known.hash = "" // its next report leads to another question
		return
	}
	d.tell("/testbed/hosted", map[string]any{"nodeId": node.StableID, "services": hosted(found.VIPServices)})
}

// hosted is what the keeper is told about Services that a device hosts: a device without a serve configuration for one
// has no ports.
func hosted(services []*tailcfg.VIPService) map[tailcfg.ServiceName]any {
	told := map[tailcfg.ServiceName]any{}
	for _, each := range services {
		var ports []string
		for _, span := range each.Ports {
			for port := int(span.Ports.First); port <= int(span.Ports.Last); port++ {
				ports = append(ports, fmt.Sprintf("tcp:%d", port))
			}
		}
		told[each.Name] = map[string]any{"advertises": each.Active, "ports": ports}
	}
	return told
}

func (d *devices) askServices(node *tailcfg.Node) (*tailcfg.C2NVIPServicesResponse, error) {
	client := http.Client{Transport: d.server.NodeRoundTripper(node.Key), Timeout: 2 * time.Second}
	response, err := client.Get("http://c2n/vip-services")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	found := &tailcfg.C2NVIPServicesResponse{}
	return found, json.NewDecoder(response.Body).Decode(found)
}

// followServices tells clients about known, the Services of the tailnet; mu is held.
func (d *devices) followServices(known []service) error {
	old := d.services.Swap(&known)
	for _, node := range d.server.AllNodes() {
		hosted := tailcfg.ServiceIPMappings{}
		for _, each := range known {
			if slices.Contains(each.Hosts, node.StableID) {
				hosted[each.Name] = each.Addrs
			}
		}
		if err := d.tellHost(node, hosted); err != nil {
			return err
		}
	}
	if old == nil || !reflect.DeepEqual(*old, known) {
		d.server.AddDNSRecords() // none, but every client gets a response, to which we add ours
	}
	return nil
}

// tellHost tells a device the Services that it may host.
func (d *devices) tellHost(node *tailcfg.Node, hosted tailcfg.ServiceIPMappings) error {
	known, attributes, text := d.client(node.StableID), tailcfg.NodeCapMap{}, ""
	if len(hosted) > 0 {
		value, err := json.Marshal(hosted)
		if err != nil {
			return err
		}
		text = string(value)
		attributes[tailcfg.NodeAttrServiceHost] = []tailcfg.RawMessage{tailcfg.RawMessage(text)}
	}
	if known.hosted != text {
		known.hosted = text
		d.server.SetNodeCapMap(node.Key, attributes)
	}
	return nil
}

// add adds to a map response what testcontrol doesn't know.
func (d *devices) add(response *tailcfg.MapResponse) {
	if response.Node == nil || response.DNSConfig == nil {
		return // it only keeps the stream alive
	}
	d.addServices(response)
	d.addPolicy(response)
}

// addServices adds to a map response the names of all Services, the routes to them, and the names that the device may get
// certificates for. Among these, the name of the device itself stays the first. testcontrol could only change the routes
// of one device after the other: when another host became the primary, clients would get a response between the two
// changes, and would lose packets.
func (d *devices) addServices(response *tailcfg.MapResponse) {
	config := response.DNSConfig
	for _, each := range *d.services.Load() {
		for _, node := range append(response.Peers, response.Node) {
			if each.Primary != "" && node.StableID == each.Primary {
				addRoutes(node, each.Addrs)
			}
		}
		for _, address := range each.Addrs {
			config.ExtraRecords = append(config.ExtraRecords, tailcfg.DNSRecord{Name: each.DNSName + ".", Value: address.String()})
		}
		if slices.Contains(each.Hosts, response.Node.StableID) {
			config.CertDomains = append(config.CertDomains, each.DNSName)
		}
	}
}

func addRoutes(node *tailcfg.Node, addrs []netip.Addr) {
	for _, addr := range addrs {
		route := netip.PrefixFrom(addr, addr.BitLen())
		node.AllowedIPs = append(node.AllowedIPs, route)
		node.PrimaryRoutes = append(node.PrimaryRoutes, route)
	}
}

// setDNS accepts the record by which a host proves that a Service's name is its own; nobody will look for the record.
// testcontrol judges the other names.
func (d *devices) setDNS(w http.ResponseWriter, r *http.Request) {
	var request tailcfg.SetDNSRequest
	if !decode(w, r, &request) {
		return
	}
	if node := d.server.Node(request.NodeKey); node != nil {
		for _, each := range *d.services.Load() {
			if request.Name == "_acme-challenge."+each.DNSName && slices.Contains(each.Hosts, node.StableID) {
				json.NewEncoder(w).Encode(tailcfg.SetDNSResponse{})
				return
			}
		}
	}
	d.handlers.ServeHTTP(w, withBody(r, &request))
}

// mapWriter changes the responses of a map stream, and compresses them. testcontrol writes the size of a response, and
// then the response.
type mapWriter struct {
	http.ResponseWriter
	change  func(*tailcfg.MapResponse)
	hasSize bool
}

func (w *mapWriter) Write(part []byte) (int, error) {
	w.hasSize = !w.hasSize
	if w.hasSize {
		return len(part), nil // it will have another size
	}
	var response tailcfg.MapResponse
	if err := json.Unmarshal(part, &response); err != nil {
		return 0, err
	}
	w.change(&response)
	changed, err := json.Marshal(&response)
	if err != nil {
		return 0, err
	}
	frame := zstdframe.AppendEncode(nil, changed, zstdframe.FastestCompression)
	if _, err := w.ResponseWriter.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(frame)))); err != nil {
		return 0, err
	}
	if _, err := w.ResponseWriter.Write(frame); err != nil {
		return 0, err
	}
	return len(part), nil
}

func (w *mapWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }
