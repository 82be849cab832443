package sim

func deliveryScenarios() []scenario { return nil }
