package pod

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestManifest proves that the manifest for Kubernetes in docs/pod.md is YAML, that what it says in several places is
// the same, and that the pod file in its secret can be read, with a key that has the rights the manifest gives it.
func TestManifest(t *testing.T) {
	page, err := os.ReadFile("../../docs/pod.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## In Kubernetes")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("there is no manifest")
	}
	type volume struct {
		Name   string
		Secret struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode uint32 `yaml:"defaultMode"`
		}
	}
	type container struct {
		Command []string
		Env     []struct{ Name, Value string }
		Mounts  []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	type object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		StringData map[string]string `yaml:"stringData"`
		Spec       struct {
			Replicas int
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Containers []container
					Volumes    []volume
				}
			}
		}
	}
	kinds := map[string]object{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds[o.APIVersion+" "+o.Kind] = o
	}
	secret, set := kinds["v1 Secret"], kinds["apps/v1 StatefulSet"]
	pods := set.Spec.Template
	if len(kinds) != 2 || len(pods.Spec.Containers) != 1 || len(pods.Spec.Volumes) != 1 {
		t.Fatalf("objects %v", kinds)
	}
	c, v := pods.Spec.Containers[0], pods.Spec.Volumes[0]
	if v.Secret.SecretName != secret.Metadata.Name || len(c.Mounts) != 1 || c.Mounts[0].Name != v.Name {
		t.Errorf("the volume %+v is not the secret %q, or not mounted: %+v", v, secret.Metadata.Name, c.Mounts)
	}
	if app := set.Spec.Selector.MatchLabels["app"]; app == "" || app != pods.Metadata.Labels["app"] {
		t.Errorf("the set selects %v, its pods have %v", set.Spec.Selector.MatchLabels, pods.Metadata.Labels)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if env["ROPEWAY_POD"] != path.Join(c.Mounts[0].MountPath, "pod.yaml") || env["ROPEWAY_PRODUCT"] != "A3" {
		t.Errorf("the environment is %v", env)
	}
	dir := t.TempDir()
	for name, text := range secret.StringData {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), os.FileMode(v.Secret.DefaultMode)); err != nil {
			t.Fatal(err)
		}
	}
	config, err := Read(filepath.Join(dir, "pod.yaml"), "1")
	if err != nil || len(config.Servers) != set.Spec.Replicas {
		t.Errorf("the pod file in the secret: %+v, %v", config, err)
	}
}
