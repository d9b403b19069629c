import Foundation
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Key sources")
struct KeySourceTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// The secret that a source gives, with its kind before it.
    private func read(_ source: KeySource) throws -> String {
        let secret = try source.read()
        return secret.withBytes { secret.isPassphrase ? "passphrase:" + Array($0).text : "raw:" + Hex.text(Array($0)) }
    }

    private func failure(_ source: KeySource) -> StoreError? {
        #expect(throws: StoreError.self) { _ = try source.read() }
    }

    private func write(_ content: String, permissions: mode_t = 0o600) throws -> String {
        let path = folder.file("key-\(UUID().uuidString)")
        try Data(content.utf8).write(to: URL(fileURLWithPath: path))
        #expect(chmod(path, permissions) == 0)
        return path
    }

    @Test("values at hand are given as they are, as often as they are asked for")
    func literals() throws {
        let source = KeySource.passphrase("open sesame\n")
        #expect(try read(source) == "passphrase:open sesame\n")
        #expect(try read(source) == "passphrase:open sesame\n")
        #expect(try read(.passphrase(bytes: [97, 0, 98])) == "passphrase:a\0b")
        #expect(try read(.rawKey(Fixture.keyBytes)) == "raw:" + Hex.text(Fixture.keyBytes))
        #expect(failure(.rawKey([1, 2, 3]))?.code == .invalidKey)
        #expect(failure(.passphrase(""))?.code == .invalidKey)
    }

    // Story: a link of another member of the group led root to a file of known content, which became the key of a store.
    @Test(
        "a key file that a link of another user leads to is refused",
        .enabled(if: geteuid() == 0, "only root can give links away"))
    func foreignLink() throws {
        let path = try write("word")
        let link = path + "-link"
        #expect(symlink(path, link) == 0)
        #expect(try read(.keyFile(path: link)) == "passphrase:word")
        #expect(lchown(link, 61_001, 61_001) == 0)
        let error = failure(.keyFile(path: link))
        #expect(error?.code == .invalidKey && error?.what.contains("link of another user") == true, "\(error as Any)")
    }

    @Test(
        "a key file loses one line end and nothing else",
        arguments: [
            ("word", "word"), ("word\n", "word"), ("word\r\n", "word"), ("word\n\n", "word\n"), (" word \n", " word "),
            ("word\r", "word\r"), ("two\nlines\n", "two\nlines"),
        ])
    func keyFile(content: String, passphrase: String) throws {
        #expect(try read(.keyFile(path: write(content))) == "passphrase:" + passphrase)
    }

    @Test(
        "a key file without a key is refused, and told why",
        arguments: [
            ("", "no bytes"), ("\n", "an end of line and nothing else"), ("\r\n", "an end of line and nothing else"),
        ])
    func emptyKeyFile(content: String, reason: String) throws {
        let error = try failure(.keyFile(path: write(content)))
        #expect(error?.code == .keyMissing && error?.why.contains(reason) == true, "\(String(describing: error))")
    }

    // Opening it once waited for ever.
    @Test("a pipe with a name gives what is written to it, and is given up when nobody writes")
    func namedPipe() throws {
        let path = folder.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let error = #expect(throws: StoreError.self) {
            _ = try KeyFile.contents(of: path, checkingPermissions: true, wait: .milliseconds(200))
        }
        #expect(error?.code == .keyMissing && error?.why.contains("Nothing was written") == true)
        let writer = Thread { try? Data("from a pipe\n".utf8).write(to: URL(fileURLWithPath: path)) }
        writer.start()
        #expect(try read(.keyFile(path: path)) == "passphrase:from a pipe")
    }

    @Test(
        "a key file that others may read or write is refused, with the command that helps",
        arguments: [0o640, 0o604, 0o620, 0o602, 0o644, 0o666] as [mode_t])
    func openKeyFile(permissions: mode_t) throws {
        let path = try write("secret words", permissions: permissions)
        for source in [KeySource.keyFile(path: path), .rawKeyFile(path: path)] {
            let error = failure(source)
            #expect(error?.code == .invalidKey)
            #expect(error?.remedy.contains("chmod 600 '\(path)'") == true)
        }
    }

    // Somebody else could exchange such a key for one of his own, and so read what is written under it.
    @Test(
        "a key file of another user is refused, whatever its mode, and root's is taken",
        .enabled(if: geteuid() == 0, "only root can give files away"))
    func foreignKeyFile() throws {
        let path = try write("secret words")
        #expect(chown(path, 65_534, 65_534) == 0)
        for source in [KeySource.keyFile(path: path), .rawKeyFile(path: path)] {
            let error = failure(source)
            #expect(error?.code == .invalidKey)
            #expect(error?.why.contains("user 65534") == true, "\(String(describing: error))")
            #expect(error?.remedy.contains("chown") == true)
        }
        #expect(chown(path, 0, 65_534) == 0)
        #expect(try read(.keyFile(path: path)) == "passphrase:secret words")
    }

    @Test("a key file that is too long is refused, one of just the limit is not")
    func longKeyFile() throws {
        #expect(try failure(.keyFile(path: write(String(repeating: "a", count: 65_537))))?.code == .invalidKey)
        let longest = String(repeating: "a", count: 65_536)
        #expect(try read(.keyFile(path: write(longest, permissions: 0o400))) == "passphrase:" + longest)
    }

    @Test("a missing key file and a folder are system errors that name it")
    func missingKeyFile() {
        let missing = #expect(throws: SystemError.self) { _ = try KeySource.keyFile(path: folder.file("none")).read() }
        #expect(missing?.isNotFound == true && missing?.path == folder.file("none"))
        #expect(throws: SystemError.self) {
            let path = folder.path
            guard chmod(path, 0o700) == 0 else { return }
            _ = try KeySource.keyFile(path: path).read()
        }
    }

    @Test("a raw key file is taken exactly")
    func rawKeyFile() throws {
        let key = String(repeating: "k", count: 31) + "\n"
        #expect(try read(.rawKeyFile(path: write(key))) == "raw:" + String(repeating: "6b", count: 31) + "0a")
        #expect(try failure(.rawKeyFile(path: write(key + "\n")))?.code == .invalidKey)
    }

    @Test("a descriptor is read to its end, once, and stays open")
    func descriptor() throws {
        let pipe = Pipe()
        pipe.fileHandleForWriting.write(Data("from a pipe\n".utf8))
        try pipe.fileHandleForWriting.close()
        let source = KeySource.fileDescriptor(pipe.fileHandleForReading.fileDescriptor)
        #expect(try read(source) == "passphrase:from a pipe")
        #expect(failure(source)?.code == .keyMissing)
        #expect(fcntl(pipe.fileHandleForReading.fileDescriptor, F_GETFD) >= 0)
        #expect(throws: SystemError.self) { _ = try KeySource.fileDescriptor(99_999).read() }
    }

    @Test("a command gives its output less one line end, without a shell in between")
    func command() throws {
        #expect(try read(.command(["printf", "%s\\n", "$HOME 'x'"])) == "passphrase:$HOME 'x'")
        #expect(try read(.command(line: "printf %s 'a b'")) == "passphrase:a b")
        #expect(throws: StoreError.self) { try KeySource.command(line: "printf 'a") }
        #expect(throws: StoreError.self) { try KeySource.command(line: "  ") }
    }

    @Test("a command that fails, hangs, says nothing or does not exist gives no key and says why")
    func failingCommand() {
        let cases: [(KeySource, String)] = [
            (.command(["sh", "-c", "echo secret; exit 3"]), "status 3"), (.command(["true"]), "no bytes"),
            (.command(["/no/such/program"]), "No such file"),
            (.command(["sleep", "1000"], timeout: .milliseconds(200)), "did not end"), (.command(["yes"]), "64 KiB"),
            (.command(["sh", "-c", "kill -9 $$"]), "signal 9"),
        ]
        for (source, reason) in cases {
            let error = failure(source)
            #expect(error?.code == .keyMissing)
            #expect(error?.why.contains(reason) == true, "\(String(describing: error))")
            #expect("\(String(describing: error))".contains("secret") == false)
        }
    }

    @Test("an environment variable is taken as it is, with a warning")
    func environment() async {
        // In a process of its own: changing the environment is not safe while other threads read it.
        await #expect(processExitsWith: .success) {
            setenv("CIPHERSTORE_TEST_KEY", "from outside\n", 1)
            let secret = try KeySource.environment("CIPHERSTORE_TEST_KEY").read()
            guard secret.isPassphrase, secret.withBytes({ Array($0).text }) == "from outside\n" else { exit(2) }
        }
        #expect(KeySource.environment("SOME_KEY").warning?.contains("SOME_KEY") == true)
        #expect(KeySource.passphrase("x").warning == nil)
        #expect(failure(.environment("CIPHERSTORE_NO_SUCH_KEY"))?.code == .keyMissing)
    }

    @Test("a systemd credential is a file of its folder and of no other")
    func credential() async throws {
        let path = try write("granted\n", permissions: 0o440)
        let (directory, name) = (Files.directory(of: path), Files.name(of: path))
        await #expect(processExitsWith: .success) { [directory = directory as String, name = name as String] in
            guard case nil = ProcessInspector.environmentValue("CREDENTIALS_DIRECTORY") else { exit(2) }
            guard code({ try KeySource.systemdCredential(name).read() }) == .keyMissing else { exit(3) }
            // An empty value once stood for the root directory.
            setenv("CREDENTIALS_DIRECTORY", "", 1)
            guard code({ try KeySource.systemdCredential("etc").read() }) == .keyMissing else { exit(6) }
            setenv("CREDENTIALS_DIRECTORY", directory, 1)
            let secret = try KeySource.systemdCredential(name).read()
            guard secret.isPassphrase, secret.withBytes({ Array($0).text }) == "granted" else { exit(4) }
            for wrong in ["", ".", "..", "../" + name, "/etc/passwd"] {
                guard code({ try KeySource.systemdCredential(wrong).read() }) == .invalidKey else { exit(5) }
            }
        }
    }

    @Test("a closure of the program's own gives keys, and its errors come through")
    func custom() throws {
        struct Refusal: Error {}
        #expect(try read(.custom("vault") { try Passphrase("from the vault") }) == "passphrase:from the vault")
        let raw = KeySource.customRawKey("vault") { try RawKey(bytes: Fixture.keyBytes) }
        #expect(try read(raw) == "raw:" + Hex.text(Fixture.keyBytes))
        #expect(throws: Refusal.self) { _ = try KeySource.custom("vault") { throw Refusal() }.read() }
    }

    @Test("descriptions name the source and never the key")
    func descriptions() {
        #expect("\(KeySource.passphrase("secret"))" == "passphrase")
        #expect("\(KeySource.rawKey([1]))" == "raw key")
        #expect("\(KeySource.keyFile(path: "/k"))" == "key file \"/k\"")
        #expect("\(KeySource.command(["pass", "secret"]))" == "command \"pass\"")
        #expect("\(KeySource.environment("VAR"))" == "environment variable VAR")
        #expect("\(KeySource.systemdCredential("c"))" == "systemd credential \"c\"")
        #expect("\(KeySource.fileDescriptor(7))" == "file descriptor 7")
        #expect("\(KeySource.prompt("Key: "))" == "prompt")
        #expect("\(KeySource.custom("vault") { try Passphrase("secret") })" == "vault")
    }

    // `--key-env` and the secrets of other services went to each key command.
    @Test("a key command gets the variables that it needs, and those that are named")
    func commandEnvironment() throws {
        setenv("CIPHERSTORE_TEST_SECRET", "hidden", 1)
        setenv("CIPHERSTORE_TEST_WANTED", "given", 1)
        defer {
            unsetenv("CIPHERSTORE_TEST_SECRET")
            unsetenv("CIPHERSTORE_TEST_WANTED")
        }
        let shell = ["sh", "-c", "echo \"$CIPHERSTORE_TEST_SECRET,$CIPHERSTORE_TEST_WANTED,$HOME\""]
        let home = ProcessInfo.processInfo.environment["HOME"] ?? ""
        #expect(try read(.command(shell)) == "passphrase:,,\(home)")
        #expect(try read(.command(shell, environment: ["CIPHERSTORE_TEST_WANTED"])) == "passphrase:,given,\(home)")
        let line = try KeySource.command(line: "env", environment: ["CIPHERSTORE_TEST_WANTED", "NOT_SET_AT_ALL"])
        let names = try read(line).dropFirst("passphrase:".count).split(separator: "\n").compactMap {
            $0.split(separator: "=").first.map(String.init)
        }
        #expect(Set(names).isSubset(of: KeySource.commandEnvironment + ["CIPHERSTORE_TEST_WANTED"]))
    }
}

/// The code of the store error that `body` throws.
private func code(_ body: () throws -> Secret) -> StoreError.Code? {
    do {
        _ = try body()
        return nil
    } catch {
        return (error as? StoreError)?.code
    }
}
