import Foundation
import StoreTools
import Testing

@testable import cipherctl

/// The files of Docs/systemd.
private enum Units {
    static let folder = Workplace.repositoryRoot.appendingPathComponent("Docs/systemd")

    static var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []).sorted()
    }

    static var services: [String] { names.filter { $0.hasSuffix(".service") } }
}

@Suite("Docs/systemd")
struct SystemdTests {

    private func lines(_ unit: String) throws -> [Substring] {
        try String(contentsOf: Units.folder.appendingPathComponent(unit), encoding: .utf8).split(separator: "\n")
    }

    @Test("the command lines of the services are cipherctl's own", arguments: Units.services)
    func commands(_ unit: String) throws {
        // The path to which `make install` installs the program.
        let makefile = try String(
            contentsOf: Workplace.repositoryRoot.appendingPathComponent("Makefile"), encoding: .utf8)
        let prefix = try #require(makefile.firstMatch(of: #/\nPREFIX \?= (.+)\n/#)?.1)
        let command = try #require(lines(unit).first { $0.hasPrefix("ExecStart=\(prefix)/bin/cipherctl ") })
        let words = command.split(separator: " ").dropFirst().map(String.init)
        let (type, rest) = try #require(Catalogue.find(words))
        _ = try Catalogue.prepare(type, ParsedArguments(rest, syntax: type.syntax))
        for line in try lines(unit) where line.hasPrefix("Environment=") {
            for pair in line.dropFirst("Environment=".count).split(separator: " ") {
                let parts = pair.split(separator: "=").map(String.init)
                #expect(["CIPHERSTORE_MAX_KEY_AGE", "CIPHERSTORE_MAX_BACKUP_AGE"].contains(parts[0]))
                #expect(AgeText.seconds(parts[1]) != nil)
            }
        }
    }

    @Test("each timer has its service, and systemd has nothing to say against the units")
    func timers() throws {
        #expect(Units.names.count == 10)
        for unit in Units.names where unit.hasSuffix(".timer") {
            #expect(Units.names.contains(unit.replacing(".timer", with: ".service")))
        }
        guard let analyze = SystemProgram.find("systemd-analyze") else { return }
        for unit in Units.names {
            let path = Units.folder.appendingPathComponent(unit).path
            let outcome = try CommandRun(analyze, ["verify", "--man=no", path]).finish()
            let complaints = outcome.errors.split(separator: "\n").filter {
                $0.contains(unit) && !$0.contains("is not executable") && !$0.contains("Failed to")
            }
            #expect(complaints.isEmpty, "\(complaints)")
        }
    }

    // Core dumps and swap of the services had keys, and a service that was taken over could do what its user may.
    @Test("each service keeps keys from the disk, and may do no more than it needs", arguments: Units.services)
    func hardening(_ unit: String) throws {
        let lines = try lines(unit)
        for line in [
            "NoNewPrivileges=yes", "ProtectSystem=strict", "RestrictNamespaces=yes", "SystemCallFilter=@system-service",
            "SystemCallArchitectures=native", "CapabilityBoundingSet=", "LimitCORE=0", "MemorySwapMax=0",
            "MemoryDenyWriteExecute=yes", "LockPersonality=yes", "RestrictSUIDSGID=yes", "RestrictRealtime=yes",
            "ProtectKernelModules=yes", "ProtectKernelLogs=yes", "ProtectClock=yes", "PrivateDevices=yes",
            "PrivateTmp=yes",
        ] {
            #expect(lines.contains(Substring(line)), "\(line)")
        }
        #expect(Set(lines).count == lines.count)
    }
}
