package amqp

// SASLMechanisms offers mechanisms to the client (5.3.3.1).
type SASLMechanisms struct {
	// Mechanisms in order of preference; mandatory.
	Mechanisms []Symbol
}

func (*SASLMechanisms) frameType() uint8 { return FrameSASL }

func (x *SASLMechanisms) appendTo(dst []byte) []byte {
	w := openList(dst, codeSASLMechanisms)
	w.needSyms(x.Mechanisms)
	return w.close()
}

func (x *SASLMechanisms) decode(r *reader) {
	l := r.openList("sasl-mechanisms", 1)
	x.Mechanisms = r.needSyms(&l, "sasl-server-mechanisms")
	r.closeList(&l)
}

// SASLInit chooses a mechanism (5.3.3.2).
type SASLInit struct {
	// Mechanism is mandatory.
	Mechanism Symbol
	// InitialResponse is nil if absent, which differs from empty for some mechanisms. It aliases the decoded bytes.
	InitialResponse []byte
	// Hostname is the name that the client dialled; empty is absent.
	Hostname string
}

func (*SASLInit) frameType() uint8 { return FrameSASL }

func (x *SASLInit) appendTo(dst []byte) []byte {
	w := openList(dst, codeSASLInit)
	w.needSym(x.Mechanism)
	w.bin(x.InitialResponse)
	w.str(x.Hostname)
	return w.close()
}

func (x *SASLInit) decode(r *reader) {
	l := r.openList("sasl-init", 3)
	x.Mechanism = r.needSym(&l, "mechanism")
	x.InitialResponse = r.bin(&l, "initial-response")
	x.Hostname = r.str(&l, "hostname")
	r.closeList(&l)
}

// SASLChallenge is a challenge of the server (5.3.3.3).
type SASLChallenge struct {
	// Challenge is opaque; mandatory, may be empty. It aliases the decoded bytes.
	Challenge []byte
}

func (*SASLChallenge) frameType() uint8 { return FrameSASL }

func (x *SASLChallenge) appendTo(dst []byte) []byte {
	w := openList(dst, codeSASLChallenge)
	w.needBin(x.Challenge)
	return w.close()
}

func (x *SASLChallenge) decode(r *reader) {
	l := r.openList("sasl-challenge", 1)
	x.Challenge = r.needBin(&l, "challenge")
	r.closeList(&l)
}

// SASLResponse answers a challenge (5.3.3.4).
type SASLResponse struct {
	// Response is opaque; mandatory, may be empty. It aliases the decoded bytes.
	Response []byte
}

func (*SASLResponse) frameType() uint8 { return FrameSASL }

func (x *SASLResponse) appendTo(dst []byte) []byte {
	w := openList(dst, codeSASLResponse)
	w.needBin(x.Response)
	return w.close()
}

func (x *SASLResponse) decode(r *reader) {
	l := r.openList("sasl-response", 1)
	x.Response = r.needBin(&l, "response")
	r.closeList(&l)
}

// SASLOutcome ends the exchange (5.3.3.5).
type SASLOutcome struct {
	// Code is the result.
	Code SASLCode
	// AdditionalData is nil if absent: for SCRAM the server's signature. It aliases the decoded bytes.
	AdditionalData []byte
}

func (*SASLOutcome) frameType() uint8 { return FrameSASL }

func (x *SASLOutcome) appendTo(dst []byte) []byte {
	w := openList(dst, codeSASLOutcome)
	w.ubyte(uint8(x.Code))
	w.bin(x.AdditionalData)
	return w.close()
}

func (x *SASLOutcome) decode(r *reader) {
	l := r.openList("sasl-outcome", 2)
	x.Code = SASLCode(r.needUbyte(&l, "code", 4))
	x.AdditionalData = r.bin(&l, "additional-data")
	r.closeList(&l)
}
