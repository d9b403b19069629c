import Foundation
import KeyCustody
import StoreCrypto
import TestKit
import Testing

@testable import RecoveryShares

/// The output of Keys/generators/make_shares.py, made from the document alone.
struct ShareVectors: Decodable {
    struct Set: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var key: String
        var set: UInt32
        var threshold: Int
        var count: Int
        var coefficients: String
        var shares: [String]

        var testDescription: String { name }
    }

    var vectors: [Set]

    static let all: [Set] = {
        let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let file = root.appending(path: "Keys/vectors/shares.json")
        return try! JSONDecoder().decode(ShareVectors.self, from: Data(contentsOf: file)).vectors
    }()

    /// Three of five.
    static var usual: Set { all[2] }
}

@Suite("Shares of a recovery key as text")
struct RecoveryShareTests {
    private func read(_ text: String) throws -> RecoveryShare {
        try Array(text.utf8).withUnsafeBytes { try RecoveryShare(reading: $0) }
    }

    private func error(_ text: String) -> RecoveryShare.ReadingError? {
        do {
            _ = try read(text)
            return nil
        } catch {
            return error as? RecoveryShare.ReadingError
        }
    }

    private func lines(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    @Test("shares are made, printed and combined as the document says", arguments: ShareVectors.all)
    func vectors(vector: ShareVectors.Set) throws {
        let key = try RawKey(bytes: vector.key.hexBytes)
        let header = RecoveryShare.Header(set: vector.set, threshold: vector.threshold, count: vector.count, number: 1)
        let split = SecretSharing.split(
            try RecoveryShare.shared(key, header), coefficients: SecretBytes(copying: vector.coefficients.hexBytes),
            count: vector.count)
        var set = RecoveryShareSet()
        for (share, text) in zip(split, vector.shares) {
            let header = RecoveryShare.Header(
                set: vector.set, threshold: vector.threshold, count: vector.count, number: Int(share.point))
            let printed = RecoveryShare(header: header, values: share.values)
            #expect(printed.withText { String(decoding: $0, as: UTF8.self) } == text)
            let typed = try read(text)
            #expect(typed.header == header && typed.values.isEqual(to: share.values))
            if set.missing != 0 { try set.add(typed) }
        }
        let combined = try set.combine()
        #expect(combined.key.bytes.hexText == vector.key && combined.misfits.isEmpty)
    }

    @Test("a caption, numbers, small letters, dashes, blanks and line ends are forgiven")
    func forgiving() throws {
        let text = ShareVectors.usual.shares[1]
        let right = try read(text)
        let numbered = lines(text).enumerated().map { "\($0 + 1). \($1)" }.joined(separator: "\r\n")
        let sloppy = text.lowercased().replacing("1", with: "l").replacing("0", with: "o")
        let spaced = text.replacing("-", with: " \u{2013}\t")
        for spelled in [
            right.caption + "\n" + text, "\u{feff}" + numbered, sloppy, spaced, lines(text).joined(separator: " "),
            "\n\n" + text.replacing("\n", with: "\n\n"), text.replacing("-", with: ""), String(text.dropLast()),
        ] {
            let found = try read(spelled)
            #expect(found.header == right.header && found.values.isEqual(to: right.values), "\(spelled)")
        }
    }

    @Test("each wrong character in a share is found, and its line named")
    func typos() throws {
        let right = lines(ShareVectors.usual.shares[4])
        for line in right.indices {
            for (position, character) in right[line].utf8.enumerated() where character != UInt8(ascii: "-") {
                let others = ShareLine.alphabet.filter { $0 != character }
                for wrong in Sweep.sample(others, oneIn: 10, offset: position) {
                    var changed = right.map { Array($0.utf8) }
                    changed[line][position] = wrong
                    let text = changed.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n")
                    #expect(error(text) == .check(line: line + 1), "line \(line + 1), character \(position + 1)")
                }
            }
        }
    }

    @Test("lines in the wrong place, and lines of other shares, are found")
    func order() throws {
        let (right, other) = (lines(ShareVectors.usual.shares[0]), lines(ShareVectors.usual.shares[1]))
        for line in 1..<right.count {
            var changed = right
            changed[line] = other[line]
            #expect(error(changed.joined(separator: "\n")) == .check(line: line + 1))
            for second in 0..<line {
                changed = right
                changed.swapAt(line, second)
                #expect(error(changed.joined(separator: "\n")) == .check(line: second + 1))
            }
        }
    }

    @Test("what is too short, too long or of other characters is told by its line, without showing it")
    func shapes() throws {
        let right = lines(ShareVectors.usual.shares[0])
        func text(_ line: Int, _ change: (String) -> String) -> String {
            var changed = right
            changed[line] = change(changed[line])
            return changed.joined(separator: "\n")
        }
        #expect(error(text(1) { String($0.dropLast()) }) == .lineLength(line: 2, found: 15))
        #expect(error(text(5) { $0 + "7" }) == .lineLength(line: 6, found: 17))
        #expect(error(text(2) { "U" + $0.dropFirst() }) == .character(line: 3))
        #expect(error(right.dropLast().joined(separator: "\n")) == .lineCount(found: 5))
        #expect(error((right + right.suffix(1)).joined(separator: "\n")) == .lineCount(found: 7))
        let recovery = try RecoveryKey.random().text().withBytes { String(decoding: $0, as: UTF8.self) }
        #expect(error(recovery) == .recoveryKey)
        for other in ["", "# a comment", "correct horse battery staple", String(repeating: "x", count: 100_000)] {
            #expect(error(other) == .otherText)
        }
        let shown = error(text(2) { "U" + $0.dropFirst() })?.description
        #expect(shown?.contains("line 3") == true && shown?.contains(right[2].prefix(4)) == false)
    }

    @Test("a line is verified when it is entered, and entered again after a mistake")
    func entry() throws {
        let right = lines(ShareVectors.usual.shares[2])
        var entry = RecoveryShareEntry()
        func enter(_ text: String) throws { try Array(text.utf8).withUnsafeBytes { try entry.enter($0) } }
        #expect(entry.nextLine == 1 && entry.header == nil)
        #expect(throws: RecoveryShare.ReadingError.check(line: 1)) { try enter(right[1]) }
        try enter(right[0])
        #expect(entry.header?.number == 3 && entry.nextLine == 2)
        #expect(throws: RecoveryShare.ReadingError.lineLength(line: 2, found: 15)) {
            try enter(String(right[1].dropLast()))
        }
        #expect(throws: RecoveryShare.ReadingError.lineLength(line: 2, found: 0)) { try enter("") }
        for line in right[1...] {
            #expect(entry.share == nil)
            try enter(line.lowercased())
        }
        let typed = try #require(entry.share)
        #expect(typed.values.isEqual(to: try read(ShareVectors.usual.shares[2]).values))
        // All of it in one line, as a QR code gives it.
        entry = RecoveryShareEntry()
        try enter(right.joined(separator: " "))
        #expect(entry.share?.header == typed.header)
    }

    @Test("no description contains the values")
    func descriptions() throws {
        let share = try read(ShareVectors.usual.shares[0])
        #expect("\(share)" == "RecoveryShare(1 of 5)" && Mirror(reflecting: share).children.isEmpty)
        #expect(
            share.caption == "# share 1 of 5 of a CipherStore recovery key, set ffffffff: any 3 of them open the store")
    }
}
