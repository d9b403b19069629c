// swift-tools-version: 6.1
import PackageDescription

/// The demo and the examples: programs that use the library as its users do, by its public interface. `make demo` and
/// `make examples` build them into the scratch path of the library, which is built once then.
let package = Package(
    name: "Workbench",
    platforms: [.macOS(.v15), .iOS(.v18)],
    // None of these programs needs it. With the same traits, what is built of the library is the same.
    traits: [.trait(name: "PostgreSQL", description: "A PostgreSQL server as a remote.")],
    dependencies: [
        .package(
            name: "CipherStore", path: "../..",
            traits: [.trait(name: "PostgreSQL", condition: .when(traits: ["PostgreSQL"]))])
    ],
    targets: [
        .executableTarget(name: "StoreDemo", dependencies: [.store], path: "StoreDemo", exclude: ["README.md"]),
        // Programs to copy: each of them shares an encrypted store between two processes, and checks what it reads.
        .example("PlayersAndTeams"),
        .example("Bookshelf"),
        .example("Inbox"),
        .example("LiveTable", exclude: ["screenshot.py"]),
        .example("SyncTwoDevices", dependencies: [.sync]),
    ],
    swiftLanguageModes: [.v6]
)

extension Target.Dependency {
    static let store = product(name: "CipherStore", package: "CipherStore")
    static let sync = product(name: "ChangesetSync", package: "CipherStore")
}

extension Target {
    static func example(_ name: String, dependencies: [Dependency] = [], exclude: [String] = []) -> Target {
        .executableTarget(
            name: name, dependencies: [.store] + dependencies, path: "Examples/\(name)",
            exclude: ["README.md"] + exclude)
    }
}
