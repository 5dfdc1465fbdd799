package main

import (
	"net/netip"
	"reflect"

	"tailscale.com/tailcfg"
)

// This file adds to testcontrol's map responses what the keeper decides for all of the tailnet: grants of application
// capabilities, and whether devices may get certificates. testcontrol has a user for each device, whom this file gives
// the login name that the keeper knows.

// policy is what the keeper decides for all of the tailnet.
type policy struct {
	HTTPS  bool    `json:"https"`
	Grants []grant `json:"grants"`
}

// grant gives capabilities to devices, at other devices.
type grant struct {
	Sources      []string           `json:"sources"` // addresses, as are the destinations
	Destinations []netip.Prefix     `json:"destinations"`
	Capabilities tailcfg.PeerCapMap `json:"capabilities"`
}

// followPolicy tells clients about known, the policy of the tailnet; mu is held.
func (d *devices) followPolicy(known policy) {
	if old := d.policy.Swap(&known); !reflect.DeepEqual(*old, known) {
		d.server.AddDNSRecords() // none, but every client gets a response, to which we add ours
	}
}

// addPolicy adds to a map response the grants, and takes away the names for certificates if the tailnet has none. It
// also names the users of devices.
func (d *devices) addPolicy(response *tailcfg.MapResponse) {
	known := d.policy.Load()
	for _, each := range known.Grants {
		rule := tailcfg.CapGrant{Dsts: each.Destinations, CapMap: each.Capabilities}
		filter := tailcfg.FilterRule{SrcIPs: each.Sources, CapGrant: []tailcfg.CapGrant{rule}}
		response.PacketFilter = append(response.PacketFilter, filter)
	}
	if !known.HTTPS {
		response.DNSConfig.CertDomains = nil
	}
	for i := range response.UserProfiles {
		profile := &response.UserProfiles[i]
		if login, ok := d.logins.Load(profile.ID); ok {
			profile.LoginName = login.(string)
		}
	}
}
