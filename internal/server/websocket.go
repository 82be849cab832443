package server

import (
	"time"

	"github.com/oncemq/oncemq/internal/websocket"
)

// upgrade takes the WebSocket handshake, where the listener is for that, in front of SASL and in the same bounds as the TLS handshake.
func (c *conn) upgrade() bool {
	if !c.web {
		return true
	}
	_ = c.nc.SetDeadline(time.Now().Add(c.s.cfg.TLSTimeout))
	ws, err := websocket.Accept(c.nc, c.s.cfg.Origins)
	if err != nil {
		c.s.log.Debug("WebSocket handshake failed", "peer", c.host, "error", err)
		c.farewell()
		return false
	}
	c.ws, c.nc = ws, ws
	return true
}
