import CipherStore
import Foundation
import TestKit
import Testing

@testable import QRCodes

@Suite("cipherctl key recovery --shares")
struct RecoveryShareCommandTests {
    private let place: Workplace
    private let folder: String

    init() throws {
        place = try Workplace()
        try place.makeStore()
        folder = place.path("shares")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    }

    private var store: String { place.path("s.db") }

    private func split(_ count: Int, _ threshold: Int, _ options: String...) throws -> CommandRun.Outcome {
        try place.run(
            [
                "key", "recovery", store, "--raw-key-file", place.key, "--shares", "\(count)", "--threshold",
                "\(threshold)",
            ]
                + options)
    }

    private func share(_ number: Int, of count: Int = 5) -> String { "shares/recovery-share-\(number)-of-\(count).txt" }

    private func test(_ names: [String]) throws -> CommandRun.Outcome {
        try place.run(
            ["key", "test", store] + names.flatMap { ["--key-recovery-shares", place.path($0)] })
    }

    @Test("each share is in a private file of its own, and any three of five open the store")
    func files() throws {
        let made = try split(5, 3, "--output-dir", folder, "--label", "board")
        #expect(made.status == 0 && made.output.split(separator: "\n").count == 5, "\(made.errors)")
        #expect(made.errors.contains("slot 2 (recovery \"board\")") && made.errors.contains("3 of these 5 shares"))
        for number in 1...5 {
            let attributes = try FileManager.default.attributesOfItem(atPath: place.path(share(number)))
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            let lines = String(decoding: try place.bytes(share(number)), as: UTF8.self).split(separator: "\n")
            #expect(lines.count == 7 && lines[0].hasPrefix("# share \(number) of 5 of a CipherStore recovery key"))
            #expect(lines.dropFirst().allSatisfy { $0.count == 19 && !made.errors.contains($0) })
        }
        for numbers in [[1, 2, 3], [5, 1, 4], [1, 2, 3, 4, 5]] {
            let opened = try test(numbers.map { share($0) })
            #expect(opened.status == 0 && opened.output.contains("slot 2"), "\(opened.errors)")
        }
        let rows = try place.run(
            ["sql", store, "SELECT count(*) FROM t"]
                + [2, 3, 5].flatMap { ["--key-recovery-shares", place.path(share($0))] })
        #expect(rows.status == 0, "\(rows.errors)")
        #expect(try place.events().contains("recovery-key-made"))
        // A second time nothing is overwritten, and no keyslot is made.
        let again = try split(5, 3, "--output-dir", folder)
        #expect(again.status == 64 && again.errors.contains("is there already"), "\(again.errors)")
        #expect(try place.ctl("key", "list", store, "--json").json["slots"].map { ($0 as? [Any])?.count } == 2)
    }

    @Test("shares that are missing, foreign, repeated, mistyped or no shares are named")
    func mistakes() throws {
        #expect(try split(5, 3, "--output-dir", folder).status == 0)
        #expect(try split(4, 2, "--output-dir", folder).status == 0)
        let few = try test([share(1), share(2)])
        #expect(few.status == 77 && few.errors.contains("1 more share is needed"), "\(few.errors)")
        let foreign = try test([share(1), share(2), share(3, of: 4)])
        #expect(foreign.errors.contains("Share 3 of set") && foreign.errors.contains("another recovery key"))
        let repeated = try test([share(1), share(2), share(2)])
        #expect(repeated.errors.contains("Share 2 was given already"), "\(repeated.errors)")
        var lines = String(decoding: try place.bytes(share(4)), as: UTF8.self).split(separator: "\n").map(String.init)
        lines[3] = String(lines[3].reversed())
        try place.write(lines.joined(separator: "\n"), to: "typed.txt")
        let typed = try test([share(1), share(2), "typed.txt"])
        #expect(typed.errors.contains("Line 3 has a wrong character") && !typed.errors.contains(lines[3]))
        let recovery = try place.ctl("key", "recovery", store)
        try place.write(recovery.output, to: "whole.txt")
        let whole = try test(["whole.txt", share(1)])
        #expect(whole.errors.contains("It is a recovery key") && whole.errors.contains("--key-file"), "\(whole.errors)")
        for outcome in [few, foreign, repeated, typed, whole] { #expect(outcome.status == 77) }
    }

    @Test("without a folder the shares are printed one after the other, or as JSON")
    func printed() throws {
        let made = try split(2, 2)
        #expect(made.status == 0, "\(made.errors)")
        let texts = made.output.split(separator: "# ").map { "# " + $0 }
        #expect(texts.count == 2)
        for (index, text) in texts.enumerated() { try place.write(String(text), to: "\(index).txt") }
        #expect(try test(["1.txt", "0.txt"]).status == 0)
        let json = try split(3, 2, "--json")
        let shares = try #require(json.json["recovery_shares"] as? [[String: Any]])
        #expect(json.json["threshold"] as? Int == 2 && json.json["expected_slot"] as? Int == 3)
        for share in shares.suffix(2) {
            let (number, lines) = (try #require(share["number"] as? Int), share["lines"] as? [String] ?? [])
            try place.write(lines.joined(separator: "\n"), to: "j\(number).txt")
        }
        let opened = try test(["j3.txt", "j2.txt"])
        #expect(opened.output.contains("slot 3"), "\(opened.errors)")
    }

    @Test("options that do not fit together are refused before anything is made")
    func options() throws {
        let refused = [
            ["--shares", "5"], ["--threshold", "3"], ["--shares", "5", "--threshold", "1"],
            ["--shares", "2", "--threshold", "3"], ["--shares", "17", "--threshold", "3"],
            ["--shares", "x", "--threshold", "2"], ["--output-dir", folder],
            ["--shares", "3", "--threshold", "2", "--output", place.path("f")], ["--qr", "--json"],
            ["--qr", "--output", place.path("f")],
        ]
        for options in refused {
            let outcome = try place.run(["key", "recovery", store, "--raw-key-file", place.key] + options)
            #expect(outcome.status == 64 && outcome.output.isEmpty, "\(options): \(outcome.errors)")
        }
        let created = try place.run(["create", place.path("n.db"), "--key-recovery-shares", place.key])
        #expect(created.status == 64, "\(created.errors)")
        #expect(try place.ctl("key", "list", store, "--json").json["slots"].map { ($0 as? [Any])?.count } == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
    }

    @Test(
        "QR codes of a key and of shares are images that another program reads",
        .enabled(if: QRCode.isAvailable && SystemProgram.find("zbarimg") != nil, "needs libqrencode and zbarimg"))
    func codes() throws {
        let reader = try #require(SystemProgram.find("zbarimg"))
        func decoded(_ name: String) throws -> String {
            let found = try CommandRun(reader, ["--quiet", "--raw", place.path(name)]).finish()
            return found.output
        }
        let whole = try place.ctl("key", "recovery", store, "--qr", "--qr-png", place.path("key.png"))
        #expect(whole.status == 0 && whole.output.contains("█") && !whole.output.contains("\u{1b}"), "\(whole.errors)")
        try place.write(try decoded("key.png"), to: "key.txt")
        #expect(try place.run(["key", "test", store, "--key-file", place.path("key.txt")]).status == 0)
        let made = try split(3, 2, "--output-dir", folder, "--qr-png", place.path("code.png"))
        #expect(made.status == 0, "\(made.errors)")
        for number in [1, 3] { try place.write(try decoded("code-\(number).png"), to: "code-\(number).txt") }
        #expect(try test(["code-3.txt", "code-1.txt"]).status == 0)
        let mode = try FileManager.default.attributesOfItem(atPath: place.path("code-2.png"))[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }
}
