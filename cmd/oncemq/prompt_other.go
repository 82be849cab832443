//go:build !linux

package main

import (
	"context"
	"fmt"

	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/config"
)

const terminal = ""

// promptTwice can't hide what is typed here.
func promptTwice(context.Context, string, string) (auth.Password, error) {
	return "", fmt.Errorf("%w: give --password-file FILE, or - for standard input", config.ErrUsage)
}
