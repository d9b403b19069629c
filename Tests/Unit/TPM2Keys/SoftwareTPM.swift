import Foundation
import Testing

@testable import TPM2Keys

/// A TPM in software (swtpm) of one test, with a state of its own. It ends with the test.
final class SoftwareTPM {
    static let program = ["/usr/bin/swtpm", "/usr/local/bin/swtpm"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// Whether the tests can run: swtpm is there, and the trait TPM2 was chosen.
    static let isUsable: Bool = {
        do throws(TPM2Error) {
            _ = try TPM2(at: "none")
        } catch {
            return error != .notBuilt && program != nil
        }
        return false
    }()

    /// Whether tpm2-tools are there, which have nothing in common with this code but the library.
    static let hasTools = FileManager.default.isExecutableFile(atPath: "/usr/bin/tpm2_clear")

    private let folder: URL
    private var process = Process()
    private(set) var port = 0

    var address: String { "swtpm:host=127.0.0.1,port=\(port)" }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tpm-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try start()
    }

    deinit {
        stop()
        try? FileManager.default.removeItem(at: folder)
    }

    /// Starts it at two neighbouring ports: the second one is for its control. It ends at once where a port is taken.
    private func start() throws {
        let deadline = ContinuousClock.now + .seconds(20)
        repeat {
            port = Int.random(in: 20_000..<32_000)
            process = Process()
            process.executableURL = URL(filePath: try #require(Self.program))
            process.arguments = [
                "socket", "--tpm2", "--tpmstate", "dir=\(folder.path)", "--server", "type=tcp,port=\(port)", "--ctrl",
                "type=tcp,port=\(port + 1)", "--flags", "not-need-init,startup-clear",
            ]
            process.standardError = FileHandle.nullDevice
            try process.run()
            while process.isRunning, ContinuousClock.now < deadline {
                if (try? TPM2(at: address).values(of: [0])) != nil { return }
            }
            stop()
        } while ContinuousClock.now < deadline
        Issue.record("swtpm did not start")
    }

    private func stop() {
        // It may have inherited blocked signals from the thread of the test.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Switches the machine off and on: PCRs have their first values again, the state of the TPM stays.
    func restart() throws {
        stop()
        try start()
    }

    /// Extends a PCR by 32 equal bytes, as a boot measures something.
    func extend(_ pcr: Int, by digits: String = "ab") throws {
        try run("tpm2_pcrextend", "\(pcr):sha256=" + String(repeating: digits, count: 32))
    }

    /// Runs a program of tpm2-tools with it.
    func run(_ name: String, _ arguments: String...) throws {
        let status = try Self.run("/usr/bin/\(name)", arguments, ["TPM2TOOLS_TCTI": address, "TSS2_LOG": "all+none"])
        try #require(status == 0, "\(name)")
    }

    static func run(
        _ program: String, _ arguments: [String], _ environment: [String: String]? = nil
    ) throws -> Int32 {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.environment = environment
        (process.standardOutput, process.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus
    }
}
