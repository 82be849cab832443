package frontend

import (
	"errors"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/selector"
)

// filter finds the selector in a source's filter set, by its descriptor and not by its key, which is the client's to choose. parsed is its form in the
// log, nil where there is none or it fits every message; honoured is the filter set that the answer echoes: filters that aren't known are left out of it,
// which tells the client so (AMQP 1.0 3.5.8).
func filter(set amqp.Map) (parsed []byte, honoured amqp.Map, refused *amqp.Error) {
	for i := range set {
		d, ok := set[i].Value.(*amqp.Described)
		if !ok || d.Descriptor != any(amqp.FilterSelectorCode) && d.Descriptor != any(amqp.FilterSelector) {
			continue
		}
		if honoured != nil {
			return nil, nil, refuse(amqp.ErrCondInvalidField, "a source has at most one selector")
		}
		text, ok := d.Value.(string)
		if !ok {
			return nil, nil, refuse(amqp.ErrCondInvalidField, "the value of a selector filter is a string")
		}
		s, err := selector.Parse(text)
		if syntax := (*selector.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, nil, refuse(amqp.ErrCondInvalidField, "the selector isn't valid: "+syntax.Error())
		} else if err != nil {
			return nil, nil, refuse(amqp.ErrCondInvalidField, err.Error())
		}
		parsed, honoured = s.AppendTo(nil), amqp.Map{set[i]}
	}
	return parsed, honoured, nil
}
