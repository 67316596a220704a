#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "interpose/real/elf_file.h"
#include "tools/cinch/doctor/gather.h"
#include "tools/cinch/doctor/loader.h"
#include "tools/cinch/installation.h"

namespace cinch::doctor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLibraries = 200;
constexpr int kMaxInterpreters = 4;  // as deep as the kernel goes

struct Dynamic {
  std::vector<std::string> needed;
  std::vector<std::string> folders;  // RPATH and RUNPATH, $ORIGIN replaced
};

Result<Elf64_Ehdr> headerOf(const ElfFile& file) {
  const auto bytes = file.read(0, sizeof(Elf64_Ehdr));
  if (!bytes.ok()) return bytes.error();
  Elf64_Ehdr header;
  memcpy(&header, bytes.value().data(), sizeof header);
  return header;
}

// The loader takes part in starting it.
bool hasInterpreter(const ElfFile& file, const Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto bytes = file.read(header.e_phoff + i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
    if (!bytes.ok()) return false;
    Elf64_Phdr segment;
    memcpy(&segment, bytes.value().data(), sizeof segment);
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

std::string replaceOrigin(std::string folder, const std::string& file) {
  for (const std::string name : {"$ORIGIN", "${ORIGIN}"})
    if (const size_t at = folder.find(name); at != std::string::npos)
      folder.replace(at, name.size(), fs::path(file).parent_path().string());
  return folder;
}

void addEntry(const Elf64_Dyn& entry, const std::string& names, const std::string& path,
              Dynamic& dynamic) {
  if (entry.d_un.d_val >= names.size()) return;
  const std::string text = names.c_str() + entry.d_un.d_val;
  if (entry.d_tag == DT_NEEDED) dynamic.needed.push_back(text);
  if (entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH) return;
  for (const std::string& folder : splitList(text, ":"))
    dynamic.folders.push_back(replaceOrigin(folder, path));
}

Dynamic dynamicOf(const ElfFile& file, const std::string& path) {
  Dynamic dynamic;
  for (const ElfSection& section : file.sections()) {
    if (section.header.sh_type != SHT_DYNAMIC || section.header.sh_link >= file.sections().size())
      continue;
    const Elf64_Shdr& nameTable = file.sections()[section.header.sh_link].header;
    const auto names = file.read(nameTable.sh_offset, nameTable.sh_size);
    const auto bytes = file.read(section.header.sh_offset, section.header.sh_size);
    if (!names.ok() || !bytes.ok()) continue;
    for (size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.value().size(); at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      memcpy(&entry, bytes.value().data() + at, sizeof entry);
      addEntry(entry, names.value(), path, dynamic);
    }
  }
  return dynamic;
}

// The words of "#!INTERPRETER [WORD]"; none where it is no script.
std::vector<std::string> scriptLine(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char bytes[256] = {};
  file.read(bytes, sizeof bytes - 1);
  const std::string_view text = bytes;
  if (!text.starts_with("#!")) return {};
  return splitList(text.substr(2, text.find('\n') - 2), " \t\r");
}

// Of "#!/usr/bin/env [-S] python3" it is python3 that counts.
std::string interpreterIn(const std::vector<std::string>& words) {
  if (fs::path(words[0]).filename() != "env") return words[0];
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i][0] != '-' && words[i].find('=') == std::string::npos) return findProgram(words[i]);
  return {};
}

// Why the file at `path`, which `command` stands for, cannot be started.
std::string startFault(const std::string& command, const std::string& path) {
  std::error_code error;
  if (path.empty()) return command + ": command not found";
  if (!fs::exists(path, error)) return path + " is not there";
  if (fs::is_directory(path, error)) return path + " is a folder";
  return access(path.c_str(), X_OK) == 0 ? "" : path + " is not executable";
}

// Everything that the loader maps with it, as far as that is found.
void followLibraries(ProgramFacts& facts, const Dynamic& program) {
  std::set<std::string> seen;
  std::vector<std::pair<std::string, std::vector<std::string>>> open;
  for (const std::string& name : program.needed) open.emplace_back(name, program.folders);
  while (!open.empty() && seen.size() < kMaxLibraries) {
    const auto [name, folders] = open.back();
    open.pop_back();
    if (!seen.insert(name).second) continue;
    const auto files = findShared(name, folders);
    if (files.empty()) continue;
    facts.libraries.push_back(files.front());
    const auto file = ElfFile::open(files.front());
    if (!file.ok()) continue;
    const Dynamic next = dynamicOf(file.value(), files.front());
    for (const std::string& other : next.needed) open.emplace_back(other, next.folders);
  }
}

void findHidden(ProgramFacts& facts) {
  for (const std::string& library : facts.libraries) {
    const auto content = readNcclContent(library);
    if (!content.ok() || !content.value().hidesNccl()) continue;
    facts.hiddenIn = library;
    facts.hiddenVersion = content.value().version;
    return;
  }
}

void lookInto(ProgramFacts& facts) {
  const auto file = ElfFile::open(facts.path);
  const auto self = ElfFile::open("/proc/self/exe");
  const auto header = file.ok() ? headerOf(file.value()) : Result<Elf64_Ehdr>(file.error());
  const auto own = self.ok() ? headerOf(self.value()) : Result<Elf64_Ehdr>(self.error());
  if (!header.ok() || !own.ok()) {
    facts.fault = facts.path + ": " + header.error().message + ", nor a script with #!";
    return;
  }
  facts.isForeign = header.value().e_machine != own.value().e_machine;
  facts.isStatic = !hasInterpreter(file.value(), header.value());
  if (const auto content = readNcclContent(facts.path); content.ok())
    facts.content = content.value();
  followLibraries(facts, dynamicOf(file.value(), facts.path));
  findHidden(facts);
}

bool isPython(const std::string& path) {
  return fs::path(path).filename().string().starts_with("python");
}

bool isSetuid(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0;
}

}  // namespace

ProgramFacts gatherProgram(const std::vector<std::string>& command) {
  ProgramFacts facts;
  if (command.empty()) return facts;
  facts.command = command[0];
  facts.path = findProgram(command[0]);
  facts.fault = startFault(command[0], facts.path);
  for (int depth = 0; facts.fault.empty() && depth < kMaxInterpreters; ++depth) {
    if (facts.python.empty() && isPython(facts.path)) facts.python = facts.path;
    const auto words = scriptLine(facts.path);
    if (words.empty()) break;
    const std::string script = facts.path;
    facts.path = interpreterIn(words);
    facts.fault = startFault(words[0], facts.path);
    if (!facts.fault.empty()) facts.fault = script + " needs its interpreter: " + facts.fault;
  }
  if (!facts.fault.empty()) return facts;
  facts.isSetuid = isSetuid(facts.path);
  lookInto(facts);
  return facts;
}

}  // namespace cinch::doctor
