# The front door of rankscope: CMake does the building (CMakeLists.txt, CMakePresets.json), scripts/ holds the longer steps.
# Needs nothing but GNU make 3.81 and a POSIX shell. 'make help' lists what there is.
PREFIX ?= /usr/local
DESTDIR ?=
SECONDS ?= 60
export DESTDIR
.PHONY: all deps deps-test deps-dev demo test test-memory asan tsan fuzz coverage bench install uninstall oracle format lint clean help
.NOTPARALLEL:

all: ##           build the program: build/rankscope
	@scripts/deps.sh --check build
	@scripts/build.sh release

deps: ##          install what building, testing and the demo need (apt, as root or through sudo)
	@scripts/deps.sh build demo test

deps-test: deps ## install what the browser and style tests need too
	@scripts/deps.sh browser lint

deps-dev: deps-test ## install clang, valgrind and gcovr as well, for the targets below that use them
	@scripts/deps.sh clang valgrind coverage oracle

demo: deps ##     scan, probe and certify one real pretrained model; leaves report.html here
	@scripts/build.sh release
	@scripts/demo.sh

test: deps ##     run every test
	@scripts/build.sh release --configure
	@scripts/test.sh build

test-memory: deps ## make each request for memory fail in turn, in every command
	@scripts/build.sh release --configure
	@RS_MEMORY_ALL=1 ctest --test-dir build --output-on-failure --no-tests=error --timeout 3000 -R '^cli_memory$$' --verbose

asan: deps ##     run the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/build.sh asan
	@scripts/test.sh build-asan --label-exclude 'style|repeats|page'

tsan: deps ##     run the threaded tests under ThreadSanitizer
	@scripts/deps.sh clang
	@scripts/build.sh tsan
	@scripts/test.sh build-tsan --label-regex unit --label-exclude one_thread

fuzz: deps ##     run each fuzz target for SECONDS=60
	@scripts/deps.sh clang
	@scripts/build.sh fuzz
	@scripts/fuzz.sh $(SECONDS)

coverage: deps ## run the tests and print how much of each file they reach
	@scripts/deps.sh coverage
	@scripts/build.sh coverage
	@scripts/test.sh build-coverage --label-exclude style
	@gcovr --root . --filter src/ --filter include/ build-coverage

bench: deps ##    measure speed against the alternatives
	@scripts/build.sh release
	@bench/run.sh

install: ##       install under PREFIX=/usr/local (DESTDIR= is honoured)
	@scripts/deps.sh --check build
	@scripts/build.sh release --only installed
	@cmake --install build --prefix "$(PREFIX)" >build/install.log
	@scripts/install_record.sh
	@echo "rankscope is installed under $(DESTDIR)$(PREFIX)"

uninstall: ##     remove what 'make install' wrote under PREFIX, and nothing else
	@PREFIX="$(PREFIX)" scripts/uninstall.sh

oracle: ##        make the reference numbers of the tests anew with NumPy, PyTorch and others
	@scripts/deps.sh oracle
	@scripts/oracle.sh

format: ##        bring the C files into shape
	@scripts/deps.sh lint
	@scripts/format.sh

lint: ##          check the shape of C files, what comments and pages name, and the scripts
	@scripts/deps.sh lint
	@scripts/format.sh --check
	@scripts/lint.sh

clean: ##         remove every build folder
	@rm -rf build build-*

help: ##          this list
	@sed -n 's/^\([a-z-]*\):[^#]*## *\(.*\)/  make \1|\2/p' Makefile | awk -F '|' '{ printf "%-18s %s\n", $$1, $$2 }'
