package frontend

import (
	"errors"
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/selector"
)

// filters are what is known of a source's filter set, where descriptors say what is which: the keys are the client's to choose. Filters that aren't known
// are left out of the answer, which tells the client so (AMQP 1.0 3.5.8).
type filters struct {
	selector amqp.Map // with one pair, or none
	parsed   []byte   // its form in the log, nil where there is none or it fits every message
	noLocal  amqp.Map // with one pair, or none
}

func filter(set amqp.Map) (f filters, refused *amqp.Error) {
	for i := range set {
		d, ok := set[i].Value.(*amqp.Described)
		switch {
		case !ok:
		case d.Descriptor == any(amqp.FilterNoLocalCode) || d.Descriptor == any(amqp.FilterNoLocal):
			f.noLocal = amqp.Map{set[i]}
		case d.Descriptor == any(amqp.FilterSelectorCode) || d.Descriptor == any(amqp.FilterSelector):
			if f.selector != nil {
				return f, refuse(amqp.ErrCondInvalidField, "a source has at most one selector")
			}
			f.selector = amqp.Map{set[i]}
			if f.parsed, refused = parseSelector(d.Value); refused != nil {
				return f, refused
			}
		}
	}
	return f, nil
}

// honoured are the filters that the answer echoes: no-local means something for topics alone.
func (f *filters) honoured(is command.Routing) amqp.Map {
	if is != command.Multicast {
		return f.selector
	}
	return slices.Concat(f.selector, f.noLocal)
}

func parseSelector(value any) ([]byte, *amqp.Error) {
	text, ok := value.(string)
	if !ok {
		return nil, refuse(amqp.ErrCondInvalidField, "the value of a selector filter is a string")
	}
	s, err := selector.Parse(text)
	if syntax := (*selector.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, refuse(amqp.ErrCondInvalidField, "the selector isn't valid: "+syntax.Error())
	} else if err != nil {
		return nil, refuse(amqp.ErrCondInvalidField, err.Error())
	}
	return s.AppendTo(nil), nil
}
