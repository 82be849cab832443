package amqp

// Properties is the immutable part of a message that names it (3.2.4). Empty strings and symbols are absent.
type Properties struct {
	// MessageID and CorrelationID are nil or a uint64, a UUID, a []byte or a string: exactly what was sent.
	MessageID, CorrelationID any
	// UserID is who is responsible; it aliases the decoded bytes. Nil is absent.
	UserID []byte
	// To is the address that the message is for, Subject what it is about, ReplyTo where answers go.
	To, Subject, ReplyTo string
	// ContentType and ContentEncoding are as in MIME.
	ContentType, ContentEncoding Symbol
	// AbsoluteExpiryTime and CreationTime are milliseconds since 1970.
	AbsoluteExpiryTime, CreationTime Opt[Timestamp]
	// GroupID, GroupSequence and ReplyToGroupID order messages of a group.
	GroupID        string
	GroupSequence  Opt[uint32]
	ReplyToGroupID string
}

// AppendProperties appends the properties section. A message-id of another type than the four panics, as AppendValue does.
func AppendProperties(dst []byte, x *Properties) []byte {
	w := openList(dst, codeProperties)
	w.any(x.MessageID)
	w.bin(x.UserID)
	w.str(x.To)
	w.str(x.Subject)
	w.str(x.ReplyTo)
	w.any(x.CorrelationID)
	w.symOr(x.ContentType, "")
	w.symOr(x.ContentEncoding, "")
	w.optTimestamp(x.AbsoluteExpiryTime)
	w.optTimestamp(x.CreationTime)
	w.str(x.GroupID)
	w.optUint(x.GroupSequence)
	w.str(x.ReplyToGroupID)
	return w.close()
}

func (x *Properties) decode(r *reader) {
	l := r.openList("properties", propertiesFields)
	x.MessageID = r.messageID(&l, "message-id")
	x.UserID = r.bin(&l, "user-id")
	x.To = r.str(&l, "to")
	x.Subject = r.str(&l, "subject")
	x.ReplyTo = r.str(&l, "reply-to")
	x.CorrelationID = r.messageID(&l, "correlation-id")
	x.ContentType = r.sym(&l, "content-type")
	x.ContentEncoding = r.sym(&l, "content-encoding")
	x.AbsoluteExpiryTime = r.optTimestamp(&l, "absolute-expiry-time")
	x.CreationTime = r.optTimestamp(&l, "creation-time")
	x.GroupID = r.str(&l, "group-id")
	x.GroupSequence = r.optUint(&l, "group-sequence")
	x.ReplyToGroupID = r.str(&l, "reply-to-group-id")
	r.closeList(&l)
}

// DecodeProperties decodes a properties section, such as Sections.Properties. An empty section gives empty Properties.
func DecodeProperties(section []byte, lim Limits) (Properties, error) {
	var x Properties
	if len(section) == 0 {
		return x, nil
	}
	r := newReader(section, lim)
	r.section(codeProperties)
	x.decode(&r)
	return x, r.whole()
}

// messageID is one of the four types of message-id (3.2.11 to 3.2.14); nil if absent.
func (r *reader) messageID(l *listReader, field string) any {
	c, ok := r.next(l)
	if !ok {
		return nil
	}
	if !isMessageID(typeOfCode[c]) {
		r.mistyped(l, field)
		return nil
	}
	return r.valueOf(c)
}

func isMessageID(t Type) bool {
	return t == TypeUlong || t == TypeUUID || t == TypeBinary || t == TypeString
}

const propertiesFields = 13

// propertiesTypes are the types of the fields; 0 stands for a message-id's four. Read only.
var propertiesTypes = [propertiesFields]Type{
	0, TypeBinary, TypeString, TypeString, TypeString, 0, TypeSymbol, TypeSymbol, TypeTimestamp, TypeTimestamp,
	TypeString, TypeUint, TypeString,
}

// checkProperties is Properties.decode without building anything.
func (r *reader) checkProperties() {
	l := r.openList("properties", propertiesFields)
	for _, want := range propertiesTypes {
		c, ok := r.next(&l)
		if !ok {
			continue
		}
		got := typeOfCode[c] // 0 as well: of what is described or undefined
		if want == 0 && !isMessageID(got) || want != 0 && got != want {
			r.fail("a field of properties has the wrong type")
			break
		}
		r.skipOf(c)
	}
	r.closeList(&l)
}
