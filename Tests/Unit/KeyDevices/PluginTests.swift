import Foundation
import StoreCrypto
import StorePlatform
import TestKit
import Testing

@testable import KeyCustody
@testable import KeyDevices

/// Programs that keep secrets, each of them a script of the test.
@Suite("Key plugins", .serialized)
struct PluginTests {
    private let folder = TestFolder()
    private let store = StoreID(bytes: Array(0xa0...0xaf))!
    private static let secret = [UInt8](repeating: 0x2a, count: 32)

    private func install(_ script: String, name: String = "test", mode: Int = 0o755) throws {
        let text = "#!/bin/sh\ncd '\(folder.url.path)'\n" + script + "\n"
        let made = FileManager.default.createFile(
            atPath: folder.path("cipherctl-key-\(name)"), contents: Data(text.utf8),
            attributes: [.posixPermissions: mode])
        try #require(made)
    }

    private func device(
        _ script: String, options: [String: String] = [:], timeout: Duration = .seconds(20), answer: String? = nil,
        onPrompt: (@Sendable (PluginPrompt) -> Void)? = nil
    ) throws -> PluginDevice {
        try install(script)
        let path = try PluginPath([folder.url.path])
        return PluginDevice(plugin: "test", options: options) {
            PluginDialogue(
                name: "test", program: try path.program(of: "test"), environment: ["PATH", "CIPHERSTORE_TEST_PLUGIN"],
                timeout: timeout,
                ask: { prompt in
                    onPrompt?(prompt)
                    return try answer.map { try Passphrase($0) }
                }, note: { _ in })
        }
    }

    private func token(_ blob: [UInt8] = [0, 1, 2]) throws -> SlotToken {
        try #require(SlotToken(name: SlotLabel("test"), blob: blob))
    }

    private func unwrap(_ device: PluginDevice) throws -> [UInt8]? {
        let slot = TokenSlot(store: store, number: 2, label: .none)
        return try device.unwrap(token(), of: slot)?.withBytes { Array($0) }
    }

    private func failure(_ script: String, timeout: Duration = .seconds(20)) throws -> StoreError {
        let device = try device(script, timeout: timeout)
        let error = #expect(throws: StoreError.self) { _ = try unwrap(device) }
        return try #require(error)
    }

    private func read(_ name: String) -> String {
        (try? String(contentsOfFile: folder.path(name), encoding: .utf8)) ?? ""
    }

    @Test("a secret goes to the program by standard input, and comes back by standard output")
    func wrapping() throws {
        let device = try device(
            "read -r line; echo \"$line\" > request; echo \"$# $*\" > arguments; echo 'blob QUJD alone untested'",
            options: ["b": "2", "a": "x y"])
        let wrapped = try device.wrap(
            SecretBytes(copying: Self.secret), for: store, replacing: token([1, 7]))
        #expect(wrapped.token.blob == [1] + Array("ABC".utf8) && !wrapped.isTestable)
        #expect(wrapped.token.name.text == "test" && device.wrapsAlone(wrapped.token))
        #expect(
            read("request") == "cipherstore-key 1 wrap store=\(store) option.a=eCB5 option.b=Mg== former=Bw== "
                + "secret=\(Base64.text(Self.secret))\n")
        #expect(read("arguments") == "0 \n")
    }

    @Test("the example of the document is a dialogue of this library")
    func example() throws {
        let url = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let document = try String(contentsOf: url.appending(path: "Docs/Formats/KeyPlugin.md"), encoding: .utf8)
        let lines = document.components(separatedBy: "\n").suffix(5).map { $0.trimmingCharacters(in: .whitespaces) }
        let script =
            "read -r a; echo '\(lines[1])'; read -r b; printf '%s\\n%s\\n' \"$a\" \"$b\" > lines; echo '\(lines[3])'"
        let device = try device(
            script, options: ["card": "mine"], answer: "1234",
            onPrompt: { #expect($0 == PluginPrompt(plugin: "test", text: "PIN of the card:", isShown: false)) })
        let slot = TokenSlot(store: store, number: 2, label: .none)
        let secret = try device.unwrap(token([0] + Array("ABC".utf8)), of: slot)
        #expect(secret?.withBytes { Array($0) } == Self.secret)
        #expect(read("lines") == "\(lines[0])\n\(lines[2])\n")
    }

    @Test("without an answer the plugin is told so, and its error is that of the opening")
    func cancelled() throws {
        let error = try failure(
            "read -r a; echo 'prompt QUJD'; read -r b; echo \"$b\" > answer; echo 'error absent QUJD'")
        #expect(read("answer") == "cancel\n" && error.code == .keyMissing && error.why.contains("ABC"))
    }

    @Test(
        "what a plugin refuses has the code of its reason",
        arguments: [
            ("absent", StoreError.Code.keyMissing), ("locked", .keyMissing), ("refused", .wrongKey),
            ("invalid", .invalidKey),
        ])
    func refusals(word: String, code: StoreError.Code) throws {
        #expect(try failure("read -r a; echo 'error \(word) QUJD'").code == code)
        #expect(try unwrap(device("read -r a; echo foreign")) == nil)
    }

    @Test(
        "an answer that is none of the protocol gives no key",
        arguments: [
            "echo nonsense", "echo 'secret !!'", "printf 'foreign'", "printf 'foreign\\nforeign\\n'",
            "echo 'blob QUJD'", "head -c 20000 /dev/zero | tr '\\0' x", "exit 3", "exit 0", "kill -9 $$",
            "while :; do echo 'note QUJD'; read -r x; done",
        ])
    func nonsense(script: String) throws {
        let error = try failure("read -r a; \(script)")
        #expect([.invalidKey, .keyMissing].contains(error.code), "\(error)")
    }

    @Test("a secret of another length opens nothing, and is no key")
    func length() throws {
        let device = try device("read -r a; echo 'secret QUJD'")
        let session = TokenSession(device)
        let slot = Keyslot(
            id: 2, kind: .plugin, created: 1, label: .none, derivation: .hkdf, salt: try .random(),
            wrapped: WrappedKey(nonce: Array(repeating: 0, count: 12), sealed: Array(repeating: 0, count: 48)),
            token: try token())
        let error = #expect(throws: StoreError.self) { _ = try session.open(slot, store) }
        #expect(error?.code == .invalidKey)
    }

    @Test("a program that does not answer in time is killed with what it has started")
    func timeout() throws {
        let start = ContinuousClock.now
        let error = try failure("sleep 1000 & echo $! > child; sleep 1000", timeout: .seconds(1))
        #expect(error.code == .keyMissing && ContinuousClock.now - start < .seconds(15))
        let child = try #require(Int32(read("child").dropLast()))
        #expect(waitUntil { kill(child, 0) != 0 || Self.isZombie(child) })
    }

    private static func isZombie(_ process: Int32) -> Bool {
        (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8))?.contains(") Z ") ?? true
    }

    @Test("the time in which a person thinks is not counted")
    func thinking() throws {
        let device = try device(
            "read -r a; echo 'prompt QUJD'; read -r b; echo 'secret \(Base64.text(Self.secret))'",
            timeout: .milliseconds(1500), answer: "x",
            onPrompt: { _ in _ = waitUntil(within: .milliseconds(1600)) { false } })
        #expect(try unwrap(device) == Self.secret)
    }

    @Test("a program inherits no descriptor but three, and no other variable than those that it gets")
    func inheritance() throws {
        setenv("CIPHERSTORE_TEST_SECRET", "hidden", 1)
        setenv("CIPHERSTORE_TEST_PLUGIN", "told", 1)
        defer {
            unsetenv("CIPHERSTORE_TEST_SECRET")
            unsetenv("CIPHERSTORE_TEST_PLUGIN")
        }
        try Data().write(to: folder.url.appending(path: "leaked"))
        let file = try #require(FileHandle(forReadingAtPath: folder.path("leaked")))
        defer { try? file.close() }
        _ = fcntl(file.fileDescriptor, F_SETFD, 0)
        _ = try unwrap(device("env > variables; ls -l /proc/$$/fd > open; read -r a; echo foreign"))
        let names = read("variables").split(separator: "\n").compactMap { $0.split(separator: "=").first }
        #expect(names.contains("CIPHERSTORE_TEST_PLUGIN") && !read("variables").contains("hidden"))
        // The shell itself sets these.
        #expect(Set(names).subtracting(["PATH", "CIPHERSTORE_TEST_PLUGIN", "PWD", "OLDPWD", "SHLVL", "_"]).isEmpty)
        #expect(read("open").contains(" 0 -> ") && !read("open").contains("leaked"))
    }

    @Test("a program that others may change, or that is found by a relative folder, is not started")
    func trust() throws {
        try install("echo started > started", mode: 0o775)
        func code(_ body: () throws -> Void) -> StoreError.Code? {
            do { try body() } catch { return (error as? StoreError)?.code }
            return nil
        }
        let path = try PluginPath([folder.url.path])
        #expect(code { _ = try path.program(of: "test") } == .invalidKey)
        chmod(folder.path("cipherctl-key-test"), 0o755)
        #expect(code { _ = try path.program(of: "test") } == nil)
        chmod(folder.url.path, 0o757)
        #expect(code { _ = try path.program(of: "test") } == .invalidKey)
        chmod(folder.url.path, 0o755)
        #expect(code { _ = try PluginPath(["plugins"]) } == .invalidKey)
        #expect(code { _ = try PluginPath(nil) { _ in Array("plugins:/usr".utf8) } } == .invalidKey)
        #expect(try PluginPath(nil) { _ in nil }.folders == PluginPath.standard)
        for name in ["", "../test", "Test", "a/b", ".", "-a"] {
            #expect(code { _ = try path.program(of: name) } == .invalidKey)
        }
        #expect(code { _ = try path.program(of: "other") } == .keyMissing)
        #expect(read("started") == "")
    }

    @Test("the source is asked once, and a link to a program is followed")
    func source() throws {
        try install("read -r a; echo x >> calls; echo 'secret \(Base64.text(Self.secret))'", name: "real")
        symlink("cipherctl-key-real", folder.path("cipherctl-key-link"))
        let source = try KeySource.plugin("link", folders: [folder.url.path])
        #expect(source.isDevice && source.description == "plugin \"link\"")
        let secret = try source.read()
        let session = try #require(secret.session)
        let slot = Keyslot(
            id: 2, kind: .plugin, created: 1, label: .none, derivation: .hkdf, salt: try .random(),
            wrapped: WrappedKey(nonce: Array(repeating: 0, count: 12), sealed: Array(repeating: 0, count: 48)),
            token: SlotToken(name: try SlotLabel("link"), blob: [0, 1]))
        for _ in 1...2 { #expect(try session.open(slot, store) == nil, "the wrapped key is not of this secret") }
        #expect(read("calls") == "x\n")
    }
}
