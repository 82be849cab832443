package engine

import (
	"errors"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// saslExchange lets both ends talk until neither has more to say; answer is the server's user.
func saslExchange(t *testing.T, c *SASLClient, s *SASLServer, answer func(SASLStep)) (clientErr, serverErr error) {
	t.Helper()
	var toServer, toClient []byte
	for range 10 {
		toServer = append(toServer, c.TakeOutput(nil)...)
		n, err := s.Input(toServer)
		if err != nil {
			serverErr = err
		}
		toServer = toServer[n:]
		if step, ok := s.Next(); ok {
			if _, again := s.Next(); again {
				t.Fatal("a step came twice")
			}
			answer(step)
		}
		toClient = append(toClient, s.TakeOutput(nil)...)
		n, err = c.Input(toClient)
		if err != nil {
			return err, serverErr
		}
		toClient = toClient[n:]
	}
	return nil, serverErr
}

// Checklist 3 and 4, both ends: PLAIN and ANONYMOUS, yes and no.
func TestSASL(t *testing.T) {
	cases := []struct {
		name    string
		client  SASLClientConfig
		offered []amqp.Symbol
		code    amqp.SASLCode
		want    SASLStep
		err     error
	}{
		{
			"plain",
			SASLClientConfig{Mechanisms: []SASLMechanism{Plain("u", "p")}, Hostname: "h"},
			[]amqp.Symbol{"SCRAM-SHA-256", "PLAIN"},
			amqp.SASLCodeOK,
			SASLStep{Init: true, Mechanism: "PLAIN", Hostname: "h", Response: []byte("\x00u\x00p"), HasResponse: true},
			nil,
		},
		{
			"plain refused",
			SASLClientConfig{Mechanisms: []SASLMechanism{Plain("u", "p")}},
			[]amqp.Symbol{"PLAIN"},
			amqp.SASLCodeAuth,
			SASLStep{Init: true, Mechanism: "PLAIN", Response: []byte("\x00u\x00p"), HasResponse: true},
			&SASLError{},
		},
		{
			"anonymous",
			SASLClientConfig{},
			[]amqp.Symbol{"ANONYMOUS"},
			amqp.SASLCodeOK,
			SASLStep{Init: true, Mechanism: "ANONYMOUS", Response: []byte{}, HasResponse: true},
			nil,
		},
		{
			"try another",
			SASLClientConfig{},
			[]amqp.Symbol{"ANONYMOUS"},
			amqp.SASLCodeSysTemp,
			SASLStep{Init: true, Mechanism: "ANONYMOUS", Response: []byte{}, HasResponse: true},
			&SASLError{},
		},
		{"no mechanism", SASLClientConfig{Mechanisms: []SASLMechanism{Plain("u", "p")}}, []amqp.Symbol{"ANONYMOUS"}, 0, SASLStep{}, ErrMechanism},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c, s := NewSASLClient(tc.client), NewSASLServer(tc.offered...)
			var got SASLStep
			err, serverErr := saslExchange(t, c, s, func(step SASLStep) {
				got = step
				s.Outcome(tc.code, nil)
			})
			if serverErr != nil {
				t.Fatal(serverErr)
			}
			if string(got.Response) != string(tc.want.Response) || got.Mechanism != tc.want.Mechanism || got.Init != tc.want.Init ||
				got.HasResponse != tc.want.HasResponse || got.Hostname != tc.want.Hostname {
				t.Fatalf("step %+v, want %+v", got, tc.want)
			}
			var no *SASLError
			switch {
			case tc.err == nil:
				if code, skipped, done := s.Done(); err != nil || !c.Done() || !done || skipped || code != 0 {
					t.Fatalf("%v, client done %t, server done %t", err, c.Done(), done)
				}
			case errors.Is(tc.err, ErrMechanism):
				if !errors.Is(err, ErrMechanism) {
					t.Fatalf("%v", err)
				}
			case !errors.As(err, &no) || no.Code != tc.code:
				t.Fatalf("%v", err)
			}
		})
	}
}

// A mechanism of several steps: challenges go out, responses come in; nothing is consumed before the user has answered.
func TestSASLChallenge(t *testing.T) {
	s := NewSASLServer("X")
	in := amqp.AppendProtoHeader(nil, amqp.ProtoSASL)
	in = amqp.AppendFrame(in, 0, &amqp.SASLInit{Mechanism: "X"}, nil)
	init := len(in)
	in = amqp.AppendFrame(in, 0, &amqp.SASLResponse{Response: []byte("r")}, nil)
	n, err := s.Input(in)
	if n != init || err != nil {
		t.Fatalf("%d of %d, %v", n, init, err)
	}
	if step, ok := s.Next(); !ok || step.HasResponse {
		t.Fatalf("%+v", step)
	}
	if n, _ := s.Input(in[init:]); n != 0 {
		t.Fatalf("%d consumed before the answer", n)
	}
	s.Challenge([]byte("c"))
	if n, err := s.Input(in[init:]); n != len(in)-init || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if step, ok := s.Next(); !ok || step.Init || string(step.Response) != "r" {
		t.Fatalf("%+v", step)
	}
	s.Outcome(amqp.SASLCodeOK, []byte("signature"))
	if n, err := s.Input([]byte("AMQP\x00\x01\x00\x00")); n != 0 || err != nil {
		t.Fatalf("%d consumed behind the outcome, %v", n, err)
	}
}

// steps is a mechanism of two messages that wants proof.
type steps struct{ said []string }

func (*steps) Name() string { return "STEPS" }

func (m *steps) Start() ([]byte, error) { return []byte("first"), nil }

func (m *steps) Answer(challenge []byte) ([]byte, error) {
	m.said = append(m.said, string(challenge))
	if string(challenge) == "bad" {
		return nil, errors.New("bad challenge")
	}
	return []byte("final"), nil
}

func (*steps) Verify(additional []byte) error {
	if string(additional) != "proof" {
		return errors.New("no proof")
	}
	return nil
}

// A client's mechanism answers challenges, sees the proof, and ends the exchange where either is wrong or there are too many.
func TestSASLClientSteps(t *testing.T) {
	for _, tc := range []struct {
		challenges []string
		proof      string
		ok         bool
	}{
		{[]string{"salt"}, "proof", true},
		{[]string{"salt", "more", "again"}, "proof", true},
		{[]string{"salt", "more", "again", "once more"}, "proof", false},
		{[]string{"bad"}, "proof", false},
		{[]string{"salt"}, "", false},
	} {
		m := &steps{}
		c, s := NewSASLClient(SASLClientConfig{Mechanisms: []SASLMechanism{External("u"), m, Plain("u", "p")}}), NewSASLServer("PLAIN", "STEPS")
		asked := 0
		err, serverErr := saslExchange(t, c, s, func(step SASLStep) {
			if step.Init && (step.Mechanism != "STEPS" || string(step.Response) != "first") || !step.Init && string(step.Response) != "final" {
				t.Errorf("%+v", step)
			}
			if asked == len(tc.challenges) {
				s.Outcome(amqp.SASLCodeOK, []byte(tc.proof))
				return
			}
			s.Challenge([]byte(tc.challenges[asked]))
			asked++
		})
		if serverErr != nil || (err == nil) != tc.ok || c.Done() != tc.ok {
			t.Errorf("%v, proof %q: client %v, server %v", tc.challenges, tc.proof, err, serverErr)
		}
	}
}

// A server that didn't take the initial response asks for it; any other challenge is no part of a mechanism of one message.
func TestSASLClientIsAskedAgain(t *testing.T) {
	for challenge, ok := range map[string]bool{"": true, "x": false} {
		c, s := NewSASLClient(SASLClientConfig{Mechanisms: []SASLMechanism{Plain("u", "p")}}), NewSASLServer("PLAIN")
		err, _ := saslExchange(t, c, s, func(step SASLStep) {
			if step.Init {
				s.Challenge([]byte(challenge))
				return
			}
			if string(step.Response) != "\x00u\x00p" {
				t.Errorf("%+v", step)
			}
			s.Outcome(amqp.SASLCodeOK, nil)
		})
		if ok != c.Done() || ok != (err == nil) {
			t.Errorf("challenge %q: done %v, %v", challenge, c.Done(), err)
		}
	}
}

// Checklist 1: the AMQP header without SASL is taken only if configured, else SASL's header is returned.
func TestSASLSkipped(t *testing.T) {
	header := amqp.AppendProtoHeader(nil, amqp.ProtoAMQP)
	s := NewSASLServer("ANONYMOUS")
	if _, err := s.Input(header); !errors.Is(err, ErrHeader) || string(s.TakeOutput(nil)) != "AMQP\x03\x01\x00\x00" {
		t.Fatalf("%v", err)
	}
	s = NewSASLServer("ANONYMOUS")
	s.AllowSkip = true
	n, err := s.Input(header)
	if _, skipped, done := s.Done(); n != 0 || err != nil || !skipped || !done || len(s.TakeOutput(nil)) != 0 {
		t.Fatalf("%d %v %t %t", n, err, skipped, done)
	}
}

// Faults 3.3.13: what a hostile client may say before it is known.
func TestSASLHostile(t *testing.T) {
	frame := func(p amqp.Performative) string { return string(amqp.AppendFrame(nil, 0, p, nil)) }
	init := frame(&amqp.SASLInit{Mechanism: "PLAIN"})
	for name, in := range map[string]string{
		"response without challenge": frame(&amqp.SASLResponse{Response: []byte{}}),
		"open":                       frame(amqp.NewOpen("x")),
		"outcome":                    frame(&amqp.SASLOutcome{}),
		"frame above 512":            frame(&amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: make([]byte, 600)}),
		"size 2^31":                  "\x80\x00\x00\x00",
		"garbage":                    "\x00\x00\x00\x09\x02\x01\x00\x00\xff",
	} {
		s := NewSASLServer("PLAIN")
		all := "AMQP\x03\x01\x00\x00" + in
		if n, err := s.Input([]byte(all)); err == nil || n != len(all) {
			t.Errorf("%s: %d consumed, %v", name, n, err)
		}
		if n, err := s.Input([]byte(init)); n != 0 || err != nil {
			t.Errorf("%s: %d consumed afterwards, %v", name, n, err)
		}
	}
	s := NewSASLServer("PLAIN")
	if _, err := s.Input([]byte("AMQP\x03\x01\x00\x00" + frame(&amqp.SASLInit{Mechanism: "OTHER"}))); err != nil {
		t.Fatal(err)
	}
	if code, _, done := s.Done(); !done || code != amqp.SASLCodeAuth {
		t.Fatalf("a mechanism that was not offered: %d %t", code, done)
	}
}

func TestParsePlain(t *testing.T) {
	for in, want := range map[string]string{"\x00u\x00p": "/u/p", "z\x00u\x00p": "z/u/p", "\x00\x00p": "", "\x00u\x00": "", "u\x00p": "", "": "", "\x00u\x00p\x00": ""} {
		z, u, p, err := ParsePlain([]byte(in))
		if got := z + "/" + u + "/" + p; (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
}

// FuzzSASL gives both ends arbitrary bytes behind the header: no panic, never more consumed than given, small output.
func FuzzSASL(f *testing.F) {
	f.Add(amqp.AppendFrame(nil, 0, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00u\x00p")}, nil))
	f.Add(amqp.AppendFrame(amqp.AppendFrame(nil, 0, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"ANONYMOUS"}}, nil), 0, &amqp.SASLOutcome{}, nil))
	f.Add(amqp.AppendFrame(amqp.AppendFrame(nil, 0, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"STEPS"}}, nil), 0, &amqp.SASLChallenge{Challenge: []byte("c")}, nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		in = append(amqp.AppendProtoHeader(nil, amqp.ProtoSASL), in...)
		s, c := NewSASLServer("PLAIN", "X"), NewSASLClient(SASLClientConfig{Mechanisms: []SASLMechanism{&steps{}, Anonymous()}})
		if n, _ := c.Input(in); n < 0 || n > len(in) {
			t.Fatalf("client: %d of %d", n, len(in))
		}
		out := 0
		for b := in; len(b) > 0; {
			n, err := s.Input(b)
			if n < 0 || n > len(b) || err != nil && n != len(b) {
				t.Fatalf("server: %d of %d, %v", n, len(b), err)
			}
			b = b[n:]
			if step, ok := s.Next(); ok {
				_, _, _, _ = ParsePlain(step.Response)
				s.Challenge([]byte("c"))
			} else if n == 0 {
				break
			}
			out += len(s.TakeOutput(nil))
		}
		if out > 200+len(in) {
			t.Fatalf("%d bytes for %d", out, len(in))
		}
	})
}
