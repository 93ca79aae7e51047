package deploytest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mount creates a volume.
func (c *container) mount(ctx context.Context, m corev1.VolumeMount) error {
	i := slices.IndexFunc(c.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	volume, dir := c.pod.Spec.Volumes[i], filepath.Join(c.volumes, m.MountPath)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	switch {
	case volume.EmptyDir != nil:
		return os.Chmod(dir, 0o777) // as the kubelet does
	case volume.ConfigMap != nil:
		return c.mountConfigMap(ctx, volume.ConfigMap, dir)
	case volume.Projected != nil:
		return c.project(ctx, volume.Projected, dir)
	}
	return fmt.Errorf("the type of the volume is not supported: %+v", volume)
}

// remount updates what was mounted of ConfigMaps that have changed.
func (c *container) remount(ctx context.Context) error {
	for _, m := range c.pod.Spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(c.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		dir := filepath.Join(c.volumes, m.MountPath)
		var err error
		switch volume := c.pod.Spec.Volumes[i]; {
		case volume.ConfigMap != nil:
			err = c.mountConfigMap(ctx, volume.ConfigMap, dir)
		case volume.Projected != nil && !slices.ContainsFunc(volume.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }):
			err = c.project(ctx, volume.Projected, dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *container) mountConfigMap(ctx context.Context, source *corev1.ConfigMapVolumeSource, dir string) error {
	return c.project(ctx, &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: source.LocalObjectReference, Items: source.Items, Optional: source.Optional}},
	}}, dir)
}

// project writes a projected volume, unless what it has is there.
func (c *container) project(ctx context.Context, source *corev1.ProjectedVolumeSource, dir string) error {
	files, versions := map[string][]byte{}, ""
	for _, s := range source.Sources {
		switch {
		case s.ServiceAccountToken != nil:
			token, err := c.token(ctx, s.ServiceAccountToken)
			if err != nil {
				return err
			}
			files[s.ServiceAccountToken.Path] = []byte(token)
		case s.ConfigMap != nil:
			from, err := admin.CoreV1().ConfigMaps(system).Get(ctx, s.ConfigMap.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) && s.ConfigMap.Optional != nil && *s.ConfigMap.Optional {
				continue
			}
			if err != nil {
				return err
			}
			versions += from.Name + " " + from.ResourceVersion + ","
			for _, item := range s.ConfigMap.Items {
				files[item.Path] = []byte(from.Data[item.Key])
			}
			if s.ConfigMap.Items == nil {
				for name, text := range from.Data {
					files[name] = []byte(text)
				}
				maps.Copy(files, from.BinaryData)
			}
		case s.DownwardAPI != nil:
			for _, item := range s.DownwardAPI.Items {
				if item.FieldRef.FieldPath != "metadata.namespace" {
					return fmt.Errorf("the field %s is not supported", item.FieldRef.FieldPath)
				}
				files[item.Path] = []byte(c.pod.Namespace)
			}
		}
	}
	if c.mounted[dir] == versions {
		return nil
	}
	c.mounted[dir] = versions
	return publish(dir, files)
}

// publish replaces all files of a directory at once, as a kubelet does: each is a
// link through ..data, which is a link that is replaced.
func publish(dir string, files map[string][]byte) error {
	versions, err := filepath.Glob(filepath.Join(dir, "..v*"))
	if err != nil {
		return err
	}
	version := "..v" + strconv.Itoa(len(versions))
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, version, name), content, 0o644); err != nil {
			return err
		}
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(version, next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		return err
	}
	links, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	if err != nil {
		return err
	}
	for _, link := range links {
		if _, there := files[filepath.Base(link)]; !there {
			if err := os.Remove(link); err != nil {
				return err
			}
		}
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// left returns the objects that exist after the guide's uninstall.
func (a *administrator) left(t *testing.T) (names []string) {
	t.Helper()
	for _, o := range base(t) {
		client, err := a.resource(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Get(t.Context(), o.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			names = append(names, describe(o))
		}
	}
	return names
}
