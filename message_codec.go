package oncemq

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// propDuplicateID is the application property that carries Message.DuplicateID (C9).
const propDuplicateID = "_AMQ_DUPL_ID"

// encode is m in its sections.
func (m *Message) encode() ([]byte, error) {
	if m.encoded != nil {
		return bytes.Clone(m.encoded), nil // whoever sends it owns it
	}
	b := make([]byte, 0, 64+len(m.Data)+64*len(m.Properties))
	h := amqp.NewHeader()
	h.Durable = !m.Transient
	if m.HasPriority {
		h.Priority = m.Priority
	}
	if m.TTL > 0 {
		ms := m.TTL.Milliseconds()
		h.TTL = amqp.Some(uint32(min(max(ms, 1), math.MaxUint32)))
	}
	b = amqp.AppendHeader(b, &h)
	if len(m.Annotations) > 0 {
		annotations, err := toMap(m.Annotations, true)
		if err != nil {
			return nil, fmt.Errorf("message annotations: %w", err)
		}
		b = amqp.AppendMessageAnnotations(b, annotations)
	}
	p, err := m.properties()
	if err != nil {
		return nil, err
	}
	if p != nil {
		b = amqp.AppendProperties(b, p)
	}
	if len(m.Properties) > 0 || m.DuplicateID != "" {
		props, err := toMap(m.Properties, false)
		if err != nil {
			return nil, fmt.Errorf("message properties: %w", err)
		}
		if m.DuplicateID != "" {
			if err := checkText(m.DuplicateID); err != nil {
				return nil, fmt.Errorf("message DuplicateID: %w", err)
			}
			props = append(props, amqp.Pair{Key: propDuplicateID, Value: m.DuplicateID})
		}
		b = amqp.AppendApplicationProperties(b, props)
	}
	return m.appendBody(b)
}

// appendBody appends the body; a message without any is given an empty data section, which every client understands.
func (m *Message) appendBody(b []byte) ([]byte, error) {
	switch {
	case m.Value != nil:
		v, err := toValue(m.Value, 0)
		if err != nil {
			return nil, fmt.Errorf("message value: %w", err)
		}
		return amqp.AppendAMQPValue(b, v), nil
	case m.Sequence != nil:
		v, err := toValue(m.Sequence, 0)
		if err != nil {
			return nil, fmt.Errorf("message sequence: %w", err)
		}
		list, _ := v.(amqp.List)
		return amqp.AppendSequence(b, list), nil
	}
	return amqp.AppendData(b, m.Data), nil
}

// properties are those of AMQP 3.2.4, nil if there are none.
func (m *Message) properties() (*amqp.Properties, error) {
	if m.ID == nil && m.CorrelationID == nil && m.UserID == nil && m.To == "" && m.Subject == "" && m.ReplyTo == "" &&
		m.ContentType == "" && m.ContentEncoding == "" && m.GroupID == "" && m.GroupSequence == 0 && m.ReplyToGroupID == "" &&
		m.ExpiresAt.IsZero() && m.CreatedAt.IsZero() {
		return nil, nil
	}
	p := amqp.Properties{
		UserID: m.UserID, To: m.To, Subject: m.Subject, ReplyTo: m.ReplyTo,
		ContentType: amqp.Symbol(m.ContentType), ContentEncoding: amqp.Symbol(m.ContentEncoding),
		GroupID: m.GroupID, ReplyToGroupID: m.ReplyToGroupID,
	}
	for _, s := range []string{m.To, m.Subject, m.ReplyTo, m.GroupID, m.ReplyToGroupID} {
		if err := checkText(s); err != nil {
			return nil, fmt.Errorf("message properties: %w", err)
		}
	}
	for _, s := range []string{m.ContentType, m.ContentEncoding} {
		if err := checkSymbol(s); err != nil {
			return nil, fmt.Errorf("message properties: %w", err)
		}
	}
	var err error
	if p.MessageID, err = toID(m.ID); err != nil {
		return nil, fmt.Errorf("message ID: %w", err)
	}
	if p.CorrelationID, err = toID(m.CorrelationID); err != nil {
		return nil, fmt.Errorf("message CorrelationID: %w", err)
	}
	if !m.ExpiresAt.IsZero() {
		p.AbsoluteExpiryTime = amqp.Some(amqp.Timestamp(m.ExpiresAt.UnixMilli()))
	}
	if !m.CreatedAt.IsZero() {
		p.CreationTime = amqp.Some(amqp.Timestamp(m.CreatedAt.UnixMilli()))
	}
	if m.GroupID != "" || m.GroupSequence != 0 {
		p.GroupSequence = amqp.Some(m.GroupSequence)
	}
	return &p, nil
}

// toID is a message-id: a string, ulong, uuid or binary.
func toID(v any) (any, error) {
	switch x := v.(type) {
	case nil, uint64, []byte:
		return v, nil
	case string:
		return v, checkText(x)
	case UUID:
		return amqp.UUID(x), nil
	}
	return nil, fmt.Errorf("oncemq: a %T: want string, uint64, UUID or []byte", v)
}

// decode reads payload into m, which may alias it, and gives the header.
func (m *Message) decode(payload []byte) (amqp.Header, error) {
	lim := amqp.Limits{}
	s, err := amqp.ParseSections(payload, lim)
	if err != nil {
		return amqp.Header{}, err
	}
	h, err := amqp.DecodeHeader(s.Header)
	if err != nil {
		return h, err
	}
	m.Transient = !h.Durable
	if h.Priority != amqp.DefaultPriority {
		m.Priority, m.HasPriority = h.Priority, true
	}
	m.TTL = time.Duration(h.TTL.V) * time.Millisecond
	if err := m.readProperties(s.Properties); err != nil {
		return h, err
	}
	annotations, err := amqp.DecodeMessageAnnotations(s.MessageAnnotations, lim)
	if err != nil {
		return h, err
	}
	m.Annotations = fromMap(annotations)
	// Keys are symbols (AMQP 3.2.10). What a foreign sender wrote as another string can't be sent on, and is left out.
	maps.DeleteFunc(m.Annotations, func(key string, _ any) bool { return checkSymbol(key) != nil })
	props, err := amqp.DecodeApplicationProperties(s.ApplicationProperties, lim)
	if err != nil {
		return h, err
	}
	m.Properties = fromMap(props)
	if id, ok := m.Properties[propDuplicateID].(string); ok {
		m.DuplicateID = id
		delete(m.Properties, propDuplicateID)
	}
	return h, m.readBody(&s)
}

func (m *Message) readProperties(section []byte) error {
	p, err := amqp.DecodeProperties(section, amqp.Limits{})
	if err != nil {
		return err
	}
	m.ID, m.CorrelationID = fromValue(p.MessageID), fromValue(p.CorrelationID)
	m.UserID, m.To, m.Subject, m.ReplyTo = p.UserID, p.To, p.Subject, p.ReplyTo
	m.ContentType, m.ContentEncoding = string(p.ContentType), string(p.ContentEncoding)
	m.GroupID, m.GroupSequence, m.ReplyToGroupID = p.GroupID, p.GroupSequence.V, p.ReplyToGroupID
	if p.AbsoluteExpiryTime.Set {
		m.ExpiresAt = time.UnixMilli(int64(p.AbsoluteExpiryTime.V))
	}
	if p.CreationTime.Set {
		m.CreatedAt = time.UnixMilli(int64(p.CreationTime.V))
	}
	return nil
}

// readBody joins several sections of data, or of sequences, to one.
func (m *Message) readBody(s *amqp.Sections) error {
	switch s.BodyKind {
	case amqp.BodyData:
		var one [1][]byte
		parts := s.Data(one[:0])
		if len(parts) == 1 {
			m.Data = parts[0]
			return nil
		}
		for _, p := range parts {
			m.Data = append(m.Data, p...)
		}
	case amqp.BodySequence:
		lists, err := s.Sequences(amqp.Limits{})
		if err != nil {
			return err
		}
		m.Sequence = []any{}
		for _, l := range lists {
			for _, v := range l {
				m.Sequence = append(m.Sequence, fromValue(v))
			}
		}
	case amqp.BodyValue:
		v, err := s.Value(amqp.Limits{})
		if err != nil {
			return err
		}
		m.Value = fromValue(v)
	default: // no body: a plain JMS message
	}
	return nil
}
