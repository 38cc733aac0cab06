#include "daemon/device/backend.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/device/cuda/module_loader.hpp"
#include "penstock_install_places.hpp"
#include "penstock_version.hpp"

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

/// Sets PENSTOCK_CUDA_MODULE, or takes it away, for as long as a test runs.
class backend_choice_test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* const set = std::getenv(variable)) {
      before_ = set;
    }
    ::unsetenv(variable);
  }
  void TearDown() override {
    if (before_) {
      ::setenv(variable, before_->c_str(), 1);
    } else {
      ::unsetenv(variable);
    }
  }

  void choose_module(const std::string& path) { ::setenv(variable, path.c_str(), 1); }

  static std::string complaint_about_cuda() {
    try {
      (void)open_device({.backend = backend_choice::cuda, .ids = {0}, .host_threads = 1});
    } catch (const device_error& error) {
      return error.what();
    }
    return "no complaint";
  }

  static std::string complaint_about(const cuda_module_table& module) {
    try {
      require_matching_module(module, "/somewhere/penstock-cuda.so");
    } catch (const device_error& error) {
      return error.what();
    }
    return "no complaint";
  }

 private:
  static constexpr const char* variable = "PENSTOCK_CUDA_MODULE";
  std::optional<std::string> before_;
};

TEST_F(backend_choice_test, HostIsTakenWithoutALookAtCuda) {
  choose_module("/nowhere/penstock-cuda.so");
  const opened_device opened = open_device({.backend = backend_choice::host, .ids = {0}, .host_threads = 2});
  EXPECT_EQ(opened.device->facts().backend, "host");
  EXPECT_THAT(opened.reason, AllOf(StartsWith("host backend ("), HasSubstr("2 worker threads"),
                                   HasSubstr("because the configuration asks for it")));
}

TEST_F(backend_choice_test, CudaWithoutAModuleIsAnErrorThatSaysWhatToDo) {
  choose_module("/nowhere/penstock-cuda.so");
  EXPECT_THAT(complaint_about_cuda(), AllOf(HasSubstr("looked at /nowhere/penstock-cuda.so"),
                                            HasSubstr("set PENSTOCK_CUDA_MODULE to the module's path")));
}

TEST_F(backend_choice_test, AutomaticSaysWhyItTookTheHost) {
  choose_module("/nowhere/penstock-cuda.so");
  const opened_device opened = open_device({.backend = backend_choice::automatic, .ids = {0}, .host_threads = 1});
  EXPECT_EQ(opened.device->facts().backend, "host");
  EXPECT_THAT(opened.reason, AllOf(StartsWith("host backend ("), HasSubstr("because CUDA does not work"),
                                   HasSubstr("/nowhere/penstock-cuda.so")));
}

TEST_F(backend_choice_test, AFileThatIsNoLibraryIsAnError) {
  const fs::path file = fs::path(::testing::TempDir()) / "not-a-module.so";
  std::ofstream(file) << "text";
  choose_module(file.string());
  EXPECT_THAT(complaint_about_cuda(), AllOf(HasSubstr("can't be loaded"), HasSubstr("not-a-module.so")));
  fs::remove(file);
}

TEST_F(backend_choice_test, ALibraryThatIsNoModuleIsAnError) {
  Dl_info standard_library{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&std::getenv), &standard_library), 0);
  choose_module(fs::canonical(standard_library.dli_fname).string());
  EXPECT_THAT(complaint_about_cuda(), HasSubstr("it has no penstock_cuda_module_v1"));
}

TEST_F(backend_choice_test, AModuleOfAnotherBuildIsAnErrorThatNamesBoth) {
  EXPECT_EQ(complaint_about({cuda_module_abi, version, nullptr, nullptr}), "no complaint");
  EXPECT_THAT(complaint_about({cuda_module_abi + 1, version, nullptr, nullptr}),
              AllOf(HasSubstr("/somewhere/penstock-cuda.so is of Penstock"),
                    HasSubstr("module interface " + std::to_string(cuda_module_abi + 1)), HasSubstr("same build")));
  EXPECT_THAT(complaint_about({cuda_module_abi, "99.1.0", nullptr, nullptr}),
              AllOf(HasSubstr("is of Penstock 99.1.0"), HasSubstr(std::string("this program is of ") + version)));
}

TEST_F(backend_choice_test, TheModuleIsLookedForBesideTheProgram) {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const std::vector<fs::path> places = cuda_module_places();
  EXPECT_EQ(places.front(), folder / "penstock-cuda.so");
  EXPECT_EQ(places.at(1), (folder / installed_module_folder / "penstock-cuda.so").lexically_normal());
  EXPECT_THAT(places, ::testing::IsSupersetOf({folder.parent_path() / "lib/penstock/penstock-cuda.so",
                                               folder.parent_path() / "penstock-cuda.so",
                                               folder.parent_path() / "bin/penstock-cuda.so"}));
}

TEST_F(backend_choice_test, ANamedModuleIsTheOnlyPlace) {
  choose_module("/opt/own.so");
  EXPECT_THAT(cuda_module_places(), ::testing::ElementsAre(fs::path("/opt/own.so")));
}

}  // namespace
}  // namespace penstock::testing
