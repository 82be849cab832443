//go:build !nextlevel

package state

import "github.com/oncemq/oncemq/internal/command"

// nextState is what the next feature level keeps besides: the tests' only (next_on.go).
type nextState struct{}

func (m *Machine) appendNext(v []byte) []byte { return v }
func (m *loader) loadNext(*fields)            {}

func (m *Machine) checkNext(command.Command) verdict { return ignore }
func (m *Machine) changeNext(command.Command)        {}
