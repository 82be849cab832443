package amqp

// LifetimePolicy says when a dynamic node goes (3.5.10 to 3.5.13). It is its descriptor's code and can be written as a value
// in DynamicNodeProperties; on decode it stays a *Described there, and LifetimePolicyOf finds it.
type LifetimePolicy uint64

// The lifetime policies.
const (
	DeleteOnClose                    = LifetimePolicy(codeDeleteOnClose)
	DeleteOnNoLinks                  = LifetimePolicy(codeDeleteOnNoLinks)
	DeleteOnNoMessages               = LifetimePolicy(codeDeleteOnNoMessages)
	DeleteOnNoLinksOrMessages        = LifetimePolicy(codeDeleteOnNoLinksOrMessages)
	PropLifetimePolicy        Symbol = "lifetime-policy"
)

func (x LifetimePolicy) appendTo(dst []byte) []byte { return append(dst, 0x00, 0x53, byte(x), 0x45) }

// LifetimePolicyOf finds the policy in dynamic node properties, be its descriptor numeric or symbolic. The bool is false if
// there is none or it is not one of the four.
func LifetimePolicyOf(m Map) (LifetimePolicy, bool) {
	v, _ := m.Lookup(string(PropLifetimePolicy))
	d, ok := v.(*Described)
	if !ok {
		return 0, false
	}
	var code uint64
	switch k := d.Descriptor.(type) {
	case uint64:
		code = k
	case Symbol:
		code = codeOfSymbol[string(k)]
	}
	p := LifetimePolicy(code)
	return p, p >= DeleteOnClose && p <= DeleteOnNoLinksOrMessages
}
