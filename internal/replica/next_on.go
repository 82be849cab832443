//go:build nextlevel

package replica

import "github.com/oncemq/oncemq/internal/command"

// nextTimer proposes the next level's own command, once the state is at that level [7.1]: an older node would stop at it.
func (c *core) nextTimer() {
	if c.progress.level >= command.Level {
		c.logger.Info("a census is proposed", "level", c.progress.level)
		c.propose(&command.Census{})
	}
}
