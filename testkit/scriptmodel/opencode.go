package scriptmodel

import (
	"os"
	"path/filepath"
	"strings"
)

// ProviderID is the provider of the models in [Config], as in scripted/agent.
const ProviderID = "scripted"

// The names of the models. All have the same handler; a script tells them apart by name.
const (
	ModelAgent  = "agent"   // the default of sessions
	ModelAgent2 = "agent-2" // for tests of several models, and of limits per model
	ModelLedger = "ledger"  // for the two ledgers
)

// Config is a configuration of OpenCode in which the model server at url (see [Server.URL]) is the only provider. The
// models have made-up prices, 1 and 2 dollars per million tokens, so that cost is never zero by accident. All
// permissions are granted, since no user is there to ask.
func Config(url string) map[string]any {
	models := make(map[string]any)
	for _, name := range []string{ModelAgent, ModelAgent2, ModelLedger} {
		models[name] = map[string]any{
			"name":      name,
			"tool_call": true,
			"cost":      map[string]any{"input": 1, "output": 2},
			"limit":     map[string]any{"context": 200_000, "output": 8_000},
		}
	}
	models[ModelAgent].(map[string]any)["variants"] = map[string]any{
		"high": map[string]any{"reasoningEffort": "high"}, "low": map[string]any{"reasoningEffort": "low"},
	}
	return map[string]any{
		"$schema":           "https://opencode.ai/config.json",
		"autoupdate":        false,
		"share":             "disabled",
		"permission":        "allow",
		"model":             ProviderID + "/" + ModelAgent,
		"small_model":       ProviderID + "/" + ModelAgent,
		"enabled_providers": []string{ProviderID},
		"provider": map[string]any{
			ProviderID: map[string]any{
				"name":    "Scripted",
				"npm":     "@ai-sdk/openai-compatible", // bundled with OpenCode: nothing is downloaded
				"options": map[string]any{"baseURL": url, "apiKey": "scripted"},
				"models":  models,
			},
		},
	}
}

// OpenCodeConfig is [Config] for the environment variable OPENCODE_CONFIG_CONTENT.
func OpenCodeConfig(url string) string { return string(marshal(Config(url))) }

// OpenCodeEnv returns environ (usually [os.Environ]) with changes, so that OpenCode talks to the model server at url
// only, and writes only below home. It drops settings of OpenCode, provider keys, and variables that tie git to another
// repository.
//
// The environment must contain the configuration: OpenCode 1.18.33 without a provider sends the prompts to a free model
// hosted by its makers.
//
// OpenCodeEnv writes an empty model catalogue to home. OpenCode otherwise decodes its own, of thousands of models, per
// opened project: one CPU second (measured) for models that enabled_providers hides anyway. It also calls [Installed]
// for the configuration directory.
func OpenCodeEnv(environ []string, home, url string) []string {
	catalogue := filepath.Join(home, "models.json")
	if os.MkdirAll(home, 0o700) == nil {
		_ = os.WriteFile(catalogue, []byte("{}\n"), 0o600) // a missing file only costs that second
	}
	config := filepath.Join(home, "config")
	_ = Installed(filepath.Join(config, "opencode")) // likewise
	var env []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); !foreign(name) {
			env = append(env, entry)
		}
	}
	return append(env,
		"HOME="+home,
		"TMPDIR="+home, // OpenCode unpacks 5 MB libraries there, and leaves them
		"XDG_DATA_HOME="+filepath.Join(home, "data"),
		"XDG_CONFIG_HOME="+config,
		"XDG_STATE_HOME="+filepath.Join(home, "state"),
		"XDG_CACHE_HOME="+filepath.Join(home, "cache"),
		"OPENCODE_CONFIG_CONTENT="+OpenCodeConfig(url),
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_MODELS_PATH="+catalogue,
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"npm_config_offline=true", // despite the switches above, see [Installed]
	)
}

// Installed makes a configuration directory of OpenCode, such as a project's .opencode, one in which OpenCode has been
// at work before. Into a new one, OpenCode 1.18.33 installs its plugin SDK, with npm, inside its own process: in the
// background, so that a test's directory may be removed meanwhile, and also after it failed offline, for each project
// that is opened: up to 0.4 s of CPU time (measured). It asks only for these two entries, and works without the SDK.
func Installed(dir string) error {
	const lock = `{"lockfileVersion": 3, "packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}` + "\n"
	if err := os.MkdirAll(filepath.Join(dir, "node_modules"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "package-lock.json"), []byte(lock), 0o600)
}

// foreign reports whether an environment variable would tie OpenCode to something outside its home and working
// directory. "opencode run" (1.18.33) works in PWD rather than its actual directory, and os/exec does not correct PWD
// in an explicit environment. Git hooks run with GIT_DIR and the like: agents would commit to the repository of the
// hook.
func foreign(name string) bool {
	switch name {
	case "HOME", "PWD", "OLDPWD", "TMPDIR", "OPENAI_BASE_URL", "npm_config_offline":
		return true
	}
	return strings.HasSuffix(name, "_API_KEY") || strings.HasPrefix(name, "OPENCODE") ||
		strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "GIT_")
}
