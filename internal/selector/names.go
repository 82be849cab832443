package selector

import (
	"encoding/hex"
	"strings"
)

// field is where a name's value comes from: the numbers stand in the parsed form.
type field byte

// The fields of the header are their places in it and 1, those of the properties their places and 16.
const (
	fieldDurable       field = 1
	fieldPriority      field = 2
	fieldTTL           field = 3
	fieldFirstAcquirer field = 4
	fieldDeliveryCount field = 5

	fieldMessageID       field = 16
	fieldUserID          field = 17
	fieldTo              field = 18
	fieldSubject         field = 19
	fieldReplyTo         field = 20
	fieldCorrelationID   field = 21
	fieldContentType     field = 22
	fieldContentEncoding field = 23
	fieldExpiry          field = 24
	fieldCreationTime    field = 25
	fieldGroupID         field = 26
	fieldGroupSequence   field = 27
	fieldReplyToGroupID  field = 28

	// What JMS shows otherwise than AMQP.
	fieldJMSDeliveryMode  field = 32
	fieldJMSDeliveryCount field = 33
	fieldJMSRedelivered   field = 34
	fieldJMSMessageID     field = 35
	fieldJMSCorrelationID field = 36

	// With a key.
	fieldApplication field = 64
	fieldAnnotation  field = 65
)

// valid says whether the field is one that this version knows.
func (f field) valid() bool {
	return f >= fieldDurable && f <= fieldDeliveryCount || f >= fieldMessageID && f <= fieldReplyToGroupID ||
		f >= fieldJMSDeliveryMode && f <= fieldJMSCorrelationID || f.keyed()
}

// keyed says whether the field has a key.
func (f field) keyed() bool { return f == fieldApplication || f == fieldAnnotation }

// name is one that a selector uses, resolved.
type name struct {
	field field
	key   string
}

// fixedNames are the names with a meaning of their own. The section's fields are written with - (in quotation marks) or _.
var fixedNames = map[string]name{
	"JMSDeliveryMode":   {field: fieldJMSDeliveryMode},
	"JMSPriority":       {field: fieldPriority},
	"JMSMessageID":      {field: fieldJMSMessageID},
	"JMSTimestamp":      {field: fieldCreationTime},
	"JMSCorrelationID":  {field: fieldJMSCorrelationID},
	"JMSType":           {field: fieldSubject},
	"JMSDestination":    {field: fieldTo},
	"JMSReplyTo":        {field: fieldReplyTo},
	"JMSExpiration":     {field: fieldExpiry},
	"JMSDeliveryTime":   {field: fieldAnnotation, key: "x-opt-delivery-time"},
	"JMSRedelivered":    {field: fieldJMSRedelivered},
	"JMSXGroupID":       {field: fieldGroupID},
	"JMSXGroupSeq":      {field: fieldGroupSequence},
	"JMSXUserID":        {field: fieldUserID},
	"JMSXDeliveryCount": {field: fieldJMSDeliveryCount},

	"header.durable":        {field: fieldDurable},
	"header.priority":       {field: fieldPriority},
	"header.ttl":            {field: fieldTTL},
	"header.first-acquirer": {field: fieldFirstAcquirer},
	"header.delivery-count": {field: fieldDeliveryCount},

	"properties.message-id":           {field: fieldMessageID},
	"properties.user-id":              {field: fieldUserID},
	"properties.to":                   {field: fieldTo},
	"properties.subject":              {field: fieldSubject},
	"properties.reply-to":             {field: fieldReplyTo},
	"properties.correlation-id":       {field: fieldCorrelationID},
	"properties.content-type":         {field: fieldContentType},
	"properties.content-encoding":     {field: fieldContentEncoding},
	"properties.absolute-expiry-time": {field: fieldExpiry},
	"properties.creation-time":        {field: fieldCreationTime},
	"properties.group-id":             {field: fieldGroupID},
	"properties.group-sequence":       {field: fieldGroupSequence},
	"properties.reply-to-group-id":    {field: fieldReplyToGroupID},
}

// resolve says where the value of a name comes from. ok is false for a field that its section doesn't have.
func resolve(text string) (n name, ok bool) {
	if n, ok := fixedNames[text]; ok {
		return n, true
	}
	prefix, rest, found := strings.Cut(text, ".")
	if !found || rest == "" {
		return name{field: fieldApplication, key: text}, true
	}
	switch prefix {
	case "header", "properties":
		n, ok := fixedNames[prefix+"."+strings.ReplaceAll(rest, "_", "-")]
		return n, ok
	case "application_properties", "application-properties":
		return name{field: fieldApplication, key: rest}, true
	case "message_annotations", "message-annotations", "m":
		return name{field: fieldAnnotation, key: rest}, true
	}
	return name{field: fieldApplication, key: text}, true
}

// bareID is a message id or correlation id as JMS shows it (AMQP JMS Mapping, 3.2.1.1) as the text that AMQP's own value
// has here: a client that got an id of another type than string, or without "ID:", writes it back in its own way.
func bareID(text string) string {
	rest, ok := strings.CutPrefix(text, "ID:AMQP_")
	if !ok {
		return text
	}
	kind, id, ok := strings.Cut(rest, ":")
	if !ok {
		return text
	}
	switch kind {
	case "NO_PREFIX", "STRING", "ULONG":
		return id
	case "UUID":
		return lower(id)
	case "BINARY":
		if b, err := hex.DecodeString(id); err == nil {
			return string(b)
		}
	}
	return text
}

// lower is s with its ASCII letters in lower case.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c - 'A' + 'a'
		}
	}
	return string(b)
}
