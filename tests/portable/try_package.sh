#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs a package of the folder kit/ on this bare Debian, tries it and removes it again. packages.sh runs this there,
# as root, in the unpacked tarball of the project.
#   tests/portable/try_package.sh image|wheel|deb|rpm|module|conda|slurm|aarch64
# The output is TAP. `image` comes first: it makes an image of the bare system.
set -u
# shellcheck source=tests/tap.sh
. tests/tap.sh
version=$(cat kit/version)
programs="run doctor report bench map"
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

give_up() { echo "Bail out! $*" && exit 1; }

# needs PACKAGE...: installs packages of Debian.
needs()
{
  [ -e /var/lib/apt/lists/lock ] || apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >"$scratch/apt.out" 2>&1 || give_up "apt-get: $(tail -n 3 "$scratch/apt.out")"
}

# files: prints all files of the system, but for caches, logs and lists of packages.
files()
{
  find / -xdev \( -path "$PWD" -o -path "$scratch" -o -path /var/cache -o -path /var/log -o -path '/var/lib/apt' -o -path /var/lib/dpkg \
    -o -path /var/lib/rpm -o -path /root/.rpmdb \) -prune -o -print | sort
}

# maps_model COMMAND...: this tagc-map understands the configuration of a model, for which it needs libjansson.
maps_model()
{
  echo '{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 100, "n_positions": 32}' >"$scratch/config.json"
  is "tagc-map 1" "$("$@" from-config "$scratch/config.json" 2>&1 | head -n 1)" "tagc-map makes a map of a model"
}

# has_all FOLDER LIBRARY: the programs of the folder start, and tagc-run preloads that library.
has_all()
{
  for name in $programs; do
    is "tagc-$name $version" "$("$1/tagc-$name" --version 2>&1)" "tagc-$name starts"
  done
  is "export LD_PRELOAD='$2'" "$("$1/tagc-run" --print 2>&1 | grep LD_PRELOAD)" "tagc-run preloads the library"
  "$1/tagc-run" -- true 2>&1 | grep -q 'no NCCL call reached the library'
  point $? "the library loads, and says at exit that it saw no call"
  "$1/tagc-doctor" /bin/true 2>&1 | grep -q "preload *$2"
  point $? "tagc-doctor knows the library"
  maps_model "$1/tagc-map"
}

# has_manual FOLDER: man finds the pages for programs of that folder, and completions are beside them.
has_manual()
{
  is "$1/man/man1/tagc-run.1 $1/man/man7/libtagc-preload.7" \
    "$(man -w tagc-run libtagc-preload 2>&1 | sed 's/\.gz$//' | paste -s -d ' ')" "man finds the manual"
  [ -e "$1/bash-completion/completions/tagc-run" ] && find "$1/zsh" -name '_tagc*' | grep -q .
  point $? "there are completions for bash and zsh"
}

# trains FOLDER: two ranks on the stand-in compress under the tagc-run of that folder.
trains()
{
  if ! kit/launch --version >/dev/null 2>&1; then
    skip "two ranks compress" "the stand-in of this build needs a newer glibc than $(ldd --version | sed -n '1s/.* //p')"
    return
  fi
  kit/launch -n 2 --hosts 2 --no-prefix -- "$1/tagc-run" --codec q8 --min-bytes 0 --warmup 0 --report 1 -- kit/steps hash 14 \
    >"$scratch/ranks" 2>&1 && grep -q '^tagc-total: .* compressed=[1-9]' "$scratch/ranks"
  point $? "two ranks compress"
  [ "$bad" = 0 ] || tail -n 5 "$scratch/ranks" | sed 's/^/# /'
}

# audits WHEEL: auditwheel, from PyPI, finds that it needs nothing newer than glibc 2.28.
audits()
{
  python3 -m venv "$scratch/auditwheel"
  "$scratch/auditwheel/bin/pip" install --quiet --no-index --find-links kit/pypi auditwheel || {
    skip "auditwheel agrees with the name of the wheel" "PyPI has brought none for this Python"
    return
  }
  "$scratch/auditwheel/bin/auditwheel" show "$1" 2>&1 | tr '\n' ' ' |
    grep -qE 'consistent with the following platform tag: "manylinux_2_(1?[0-9]|2[0-8])_'
  point $? "auditwheel agrees with the name of the wheel"
}

# ---- packages ----------------------------------------------------------------------------------------------------------
try_wheel()
{
  needs python3-venv man-db
  python3 -m venv "$scratch/venv"
  find "$scratch/venv" ! -type d | sort >"$scratch/before"
  "$scratch/venv/bin/pip" install --quiet --no-index --find-links kit/wheels tagc
  point $? "pip chooses this processor's wheel, and installs it"
  PATH=$scratch/venv/bin:$PATH
  has_all "$scratch/venv/bin" "$scratch/venv/lib/libtagc-preload.so"
  has_manual "$scratch/venv/share"
  trains "$scratch/venv/bin"
  is "$scratch/venv/bin/tagc-run" "$(command -v tagc-run)" "tagc-run is on the PATH"
  is "$scratch/venv/lib/libtagc-preload.so" "$(python -m tagc library)" "python -m tagc finds the library"
  is "$scratch/venv/lib/libtagc-preload.so" "$(python -c 'import tagc; print(tagc.library_path())')" "so does tagc.library_path()"
  pip uninstall --quiet -y tagc
  is "" "$(find "$scratch/venv" ! -type d | sort | comm -13 "$scratch/before" -)" "pip uninstall leaves nothing behind"
  audits kit/wheels/tagc-*_"$(uname -m)".whl
}

try_deb()
{
  needs libelf1 libjansson4 man-db
  files >"$scratch/before"
  dpkg -i kit/tagc_*.deb >"$scratch/dpkg" 2>&1
  point $? "dpkg installs it"
  has_all /usr/bin "$(dpkg -L tagc | grep '/libtagc-preload\.so$')"
  has_manual /usr/share
  trains /usr/bin
  is "" "$(LD_PRELOAD=libtagc-preload.so /bin/true 2>&1)" "the dynamic linker finds the library by its name"
  is "" "$(dpkg --verify tagc 2>&1)" "all files are as packed"
  apt-get purge -y -qq tagc >"$scratch/apt.out" 2>&1
  point $? "apt-get purges it"
  is "" "$(files | comm -13 "$scratch/before" -)" "that leaves nothing behind"
  is "" "$(ldconfig -p | grep libtagc)" "nor in the dynamic linker's cache"
}

# Debian has RPM's tools, and no RPMs: their database knows none of the packages that this one depends on.
try_rpm()
{
  needs rpm libelf1 libjansson4 man-db
  mkdir -p /usr/share/licenses # as systems of RPMs have it
  files >"$scratch/before"
  rpm -i --force-debian --nodeps kit/tagc-*.rpm >"$scratch/rpm" 2>&1
  point $? "rpm installs it"
  library=$(rpm -ql tagc | grep '/libtagc-preload\.so$')
  has_all /usr/bin "$library"
  has_manual /usr/share
  trains /usr/bin
  is "" "$(rpm -q --requires tagc | sed -n 's/^\(lib[^(]*\|ld-[^(]*\)(.*/\1/p' | sort -u |
    while read -r soname; do ldconfig -p | grep -qF "$soname " || echo "$soname"; done)" "the libraries that it requires are those that it needs"
  is "" "$(rpm -V --nodeps tagc 2>&1)" "all files are as packed"
  rpm -e --force-debian tagc
  point $? "rpm removes it"
  is "" "$(files | comm -13 "$scratch/before" -)" "that leaves nothing behind"
}

try_module()
{
  needs lmod libelf1 libjansson4 man-db
  prefix=/opt/tagc/$version
  mkdir -p /opt/tagc "$scratch/modules/tagc"
  cp -R "kit/module$prefix" "$prefix"
  cp "kit/module/$version.lua" "$scratch/modules/tagc/"
  path=$PATH
  # shellcheck source=/dev/null
  . /usr/share/lmod/lmod/init/sh
  module use "$scratch/modules"
  is "tagc/$version" "$(module -t avail 2>&1 | grep '^tagc/.')" "Lmod knows the module"
  module help tagc 2>&1 | grep -q 'man libtagc-preload'
  point $? "its help names the manual"
  module load tagc
  is "0 $prefix/bin:$path" "$? $PATH" "module load puts the programs in front of the PATH"
  is "$prefix/lib/libtagc-preload.so" "${LIBTAGC_PRELOAD-}" "LIBTAGC_PRELOAD is the library"
  is "$prefix/bin/tagc-run" "$(command -v tagc-run)" "the shell finds the programs"
  has_all "$prefix/bin" "$LIBTAGC_PRELOAD"
  has_manual "$prefix/share"
  trains "$prefix/bin"
  is "" "${LD_PRELOAD-}" "the module preloads nothing by itself"
  module unload tagc
  is "0 $path ''" "$? $PATH '${LIBTAGC_PRELOAD-}'" "module unload takes it back"
  rm -rf /opt/tagc
}

# rattler-build of PyPI builds it. There is no channel to take compilers and libraries from: empty packages stand in for
# them, and those of Debian are used.
try_conda()
{
  if ! ls kit/pypi/py_rattler_build-*.whl >/dev/null 2>&1; then
    skip "conda's recipe" "PyPI has brought no py-rattler-build"
    return
  fi
  needs gcc libc6-dev make uthash-dev libelf-dev libjansson-dev python3-venv
  python3 -m venv "$scratch/venv"
  "$scratch/venv/bin/pip" install --quiet --no-index --find-links kit/pypi py-rattler-build || give_up "pip does not install rattler-build"
  "$scratch/venv/bin/python" tests/portable/build_recipe.py kit/conda/recipe.yaml "$scratch/channel" >"$scratch/build" 2>&1
  point $? "rattler-build builds the recipe, and its tests pass"
  [ "$bad" = 0 ] || tail -n 40 "$scratch/build" | sed 's/^/# /'
  sed -n 's/^packed: //p' "$scratch/build" >"$scratch/packed"
  is "$(for name in $programs; do echo "bin/tagc-$name"; done | sort)" "$(grep ^bin/ "$scratch/packed")" "the package has all programs"
  for file in lib/libtagc-preload.so share/man/man7/libtagc-preload.7 share/bash-completion/completions/tagc-run; do
    grep -qx "$file" "$scratch/packed"
    point $? "it has $file"
  done
}

# in_image IMAGE COMMAND...: runs it in a new container of the image. The status is the command's.
in_image()
{
  container=$(buildah from --pull-never "$1")
  shift
  buildah run --isolation chroot "$container" -- "$@"
  status=$?
  buildah rm "$container" >/dev/null
  return $status
}

# build_image IMAGE ARGUMENT...
build_image()
{
  image=$1
  shift
  buildah bud --isolation chroot --pull-never -t "$image" "$@" >"$scratch/bud" 2>&1
  built=$?
  [ $built = 0 ] || { grep -E 'rror|\*\*\*' "$scratch/bud"; tail -n 10 "$scratch/bud"; } | sed 's/^/# /'
  return $built
}

# The images of the Dockerfiles' defaults are not needed: one is this system, and one is this system with pip.
try_image()
{
  tar --one-file-system --exclude="./${PWD#/}" --exclude=./home/user/tagc --exclude='./tmp/*' -C / -cf "$scratch/bare.tar" .
  needs buildah python3-yaml
  export STORAGE_DRIVER=vfs
  image=$(python3 -c 'import sys, yaml
container, = yaml.safe_load(sys.stdin)["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
print(container["image"], *container["command"])' <examples/launchers/kubernetes.yaml) || give_up "kubernetes.yaml is no PyTorchJob"
  command=${image#* } image=${image%% *}
  is "2" "$(cat packaging/container/Dockerfile* | grep -c -- "-t $image ")" "kubernetes.yaml uses the image of the Dockerfiles"
  mkdir "$scratch/bare" "$scratch/torch"
  mv "$scratch/bare.tar" "$scratch/bare/"
  printf 'FROM scratch\nADD bare.tar /\n' >"$scratch/bare/Dockerfile"
  build_image localhost/bare "$scratch/bare" || give_up "buildah makes no image of this system"
  cat >"$scratch/torch/torchrun" <<'END'
#!/bin/sh
echo "$LD_PRELOAD $*"
END
  chmod +x "$scratch/torch/torchrun"
  cat >"$scratch/torch/Dockerfile" <<END
FROM localhost/bare
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
COPY torchrun /usr/bin/
END
  build_image localhost/torch "$scratch/torch" || give_up "buildah makes no image with pip"
  build_image "$image" --build-arg IMAGE=localhost/torch -f packaging/container/Dockerfile.wheel kit/wheels
  point $? "Dockerfile.wheel installs the wheel"
  # shellcheck disable=SC2086 # a command
  is "/usr/local/lib/libtagc-preload.so --nproc_per_node=8 train.py" "$(in_image "$image" sh -c 'mkdir /traces && "$@"' sh $command 2>"$scratch/err")" \
    "the command of kubernetes.yaml preloads the library in that image"
  mkdir "$scratch/empty"
  ! build_image localhost/none --build-arg IMAGE=localhost/torch -f packaging/container/Dockerfile.wheel "$scratch/empty" >/dev/null
  point $? "and fails without one"
  build_image localhost/built --build-arg BUILD_IMAGE=localhost/bare --build-arg IMAGE=localhost/torch -f packaging/container/Dockerfile .
  point $? "Dockerfile builds the wheel, and installs it"
  # shellcheck disable=SC2016,SC2086 # for that shell; a list
  in_image localhost/built sh -c 'version=$1 && shift && for name; do test "$(tagc-$name --version)" = "tagc-$name $version" || exit 1; done' \
    sh "$version" $programs
  point $? "its image has all programs"
  buildah rmi --all --force >/dev/null 2>&1
}

# The lines of README.md for Slurm, as a user, on one node.
try_slurm()
{
  needs slurmctld slurmd slurm-client munge python3-venv
  sed -n '/^containers\. On Slurm/,/^Three/s/^    //p' README.md >"$scratch/lines"
  is 3 "$(grep -c . "$scratch/lines")" "README.md has three lines"
  node=$(uname -n) ports=$(python3 -c 'import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))')
  mkdir -p /etc/slurm /var/lib/slurm.state /var/lib/slurm.spool /run/munge
  cat >/etc/slurm/slurm.conf <<END
ClusterName=one
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=${ports% *}
SlurmdPort=${ports#* }
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation=/var/lib/slurm.state
SlurmdSpoolDir=/var/lib/slurm.spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
NodeName=$node NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
  # There are no cgroups here; version 1 does without if no plugin needs them.
  echo CgroupPlugin=cgroup/v1 >/etc/slurm/cgroup.conf
  chown munge: /run/munge
  setpriv --reuid munge --regid munge --clear-groups munged 2>/dev/null
  slurmctld
  slurmd
  home=/home/user/slurm
  mkdir "$home"
  cp kit/wheels/tagc-*"$(uname -m)".whl "$home/"
  cat >"$home/train.py" <<'END'
import os
print("preloaded:", os.environ["LD_PRELOAD"], "libtagc-preload.so" in open("/proc/self/maps").read())
END
  chown -R user: "$home"
  while IFS= read -r line; do
    # shellcheck disable=SC2016 # for that shell
    setpriv --reuid user --regid user --clear-groups env -i HOME="$home" USER=user SLURM_IMMEDIATE=120 PATH=/usr/local/bin:/usr/bin:/bin \
      sh -c 'cd && eval "$1"' sh "$line" >"$scratch/said" 2>&1 </dev/null
    status=$?
    sed 's/^/# /' "$scratch/said"
    # There is no PyTorch, which the doctor says.
    case $line in
      *tagc-doctor*) grep -q "preload *$home/tagc/lib/libtagc-preload.so" "$scratch/said"; status=$? ;;
      *srun*)
        is "preloaded: $home/tagc/lib/libtagc-preload.so True" "$(grep '^preloaded' "$scratch/said")" "the program has the library" ;;
    esac
    point $status "$line"
  done <"$scratch/lines"
}

# Its programs run in qemu's user emulation. pip refuses the wheel of another processor, so this lays it out as pip does.
try_aarch64()
{
  needs qemu-user libc6-arm64-cross python3-venv
  python3 -m zipfile -e kit/wheels/tagc-*_aarch64.whl "$scratch/wheel"
  cp -R "$scratch"/wheel/tagc-*.data/data "$scratch/venv"
  cp -R "$scratch"/wheel/tagc-*.data/scripts "$scratch/venv/bin"
  chmod +x "$scratch"/venv/bin/*
  bin=$scratch/venv/bin library=$scratch/venv/lib/libtagc-preload.so
  set -- qemu-aarch64 -L /usr/aarch64-linux-gnu
  for name in $programs; do
    is "tagc-$name $version" "$("$@" "$bin/tagc-$name" --version 2>&1)" "tagc-$name starts"
  done
  maps_model "$@" "$bin/tagc-map"
  is "export LD_PRELOAD='$library'" "$("$@" "$bin/tagc-run" --print 2>&1 | grep LD_PRELOAD)" "tagc-run preloads the library"
  "$@" "$bin/tagc-doctor" "$bin/tagc-map" >"$scratch/said" 2>&1
  is "$library" "$(sed -n 's/^preload *\([^ ]*\) .*/\1/p' "$scratch/said")" "tagc-doctor knows the library"
  grep -q 'program for aarch64, 64 bit' "$scratch/said"
  point $? "and the processor of a program"
  is "tagc-bench $version" "$("$@" -E LD_BIND_NOW=1 -E "LD_PRELOAD=$library" "$bin/tagc-bench" --version 2>&1)" "the library loads, and disturbs no program"
  audits kit/wheels/tagc-*_aarch64.whl
}

case ${1-} in
  image | wheel | deb | rpm | module | conda | slurm | aarch64) "try_$1" ;;
  *) give_up "'${1-}' is none of these: image, wheel, deb, rpm, module, conda, slurm, aarch64" ;;
esac
done_testing
