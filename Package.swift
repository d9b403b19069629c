// swift-tools-version: 6.1
import PackageDescription

/// The layers of the package, lowest first; imports go down only (Docs/Architecture.md).
let package = Package(
    name: "CipherStore",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "CipherStore", targets: ["CipherStore"]),
        .library(name: "KeyRotation", targets: ["KeyRotation"]),
        .library(name: "StoreTools", targets: ["StoreTools"]),
        .library(name: "EncryptionConformance", targets: ["EncryptionConformance"]),
        .library(name: "ChangesetSync", targets: ["ChangesetSync"]),
        // Empty without the trait of its name.
        .library(name: "PostgreSQLRemote", targets: ["PostgreSQLRemote"]),
        .executable(name: "cipherctl", targets: ["cipherctl"]),
        // Preloaded by tests into programs that are not linked with it (Docs/Testing.md).
        .library(name: "FaultShimPreload", type: .dynamic, targets: ["FaultShim"]),
    ],
    traits: [
        .trait(
            name: "PostgreSQL",
            description: "A PostgreSQL server as a remote (PostgreSQLRemote). It needs libpq; nothing else here does.")
    ],
    targets: [
        .systemLibrary(
            name: "CSQLCipher",
            pkgConfig: "sqlcipher",
            providers: [.apt(["libsqlcipher-dev"]), .brew(["sqlcipher"])]
        ),
        .systemLibrary(
            name: "COpenSSL",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]
        ),
        // Only with the trait.
        .systemLibrary(
            name: "CPostgreSQL",
            pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"]), .brew(["libpq"])]
        ),
        .target(name: "CPlatform"),
        .target(name: "StorePlatform", dependencies: ["CPlatform"]),
        .target(name: "StoreSharing", dependencies: ["StorePlatform"]),
        .target(name: "StoreCrypto", dependencies: ["COpenSSL", "StorePlatform"]),
        .target(name: "PageFormat", dependencies: ["StoreCrypto", "StoreSharing"]),
        .target(name: "KeyCustody", dependencies: ["StorePlatform", "StoreSharing", "StoreCrypto"]),
        .target(
            name: "CipherDatabase",
            dependencies: [
                "CSQLCipher", "KeyCustody", "PageFormat", "StorePlatform", "StoreSharing", "StoreCrypto",
            ]
        ),
        .target(
            name: "RotationCore",
            dependencies: [
                "CipherDatabase", "KeyCustody", "PageFormat", "StorePlatform", "StoreSharing", "StoreCrypto",
            ]
        ),
        .target(name: "CipherSchema", dependencies: ["CipherDatabase", "KeyCustody", "StorePlatform"]),
        .target(name: "CipherRecords", dependencies: ["CipherDatabase", "CipherSchema"]),
        .target(name: "CipherObservation", dependencies: ["CipherDatabase", "CipherRecords", "StorePlatform"]),
        .target(
            name: "CipherStore",
            dependencies: [
                "CipherDatabase", "CipherObservation", "CipherRecords", "CipherSchema", "KeyCustody", "PageFormat",
                "RotationCore", "StorePlatform", "StoreSharing", "StoreCrypto",
                "CSQLCipher",
            ]
        ),
        .target(
            name: "KeyRotation",
            dependencies: [
                "CipherDatabase", "CipherSchema", "CipherStore", "KeyCustody", "PageFormat", "RotationCore",
                "StoreCrypto", "StorePlatform", "StoreSharing",
            ]
        ),
        .target(
            name: "StoreTools",
            dependencies: [
                "CipherDatabase", "CipherSchema", "CipherStore", "KeyCustody", "PageFormat", "RotationCore",
                "StoreCrypto", "StorePlatform", "StoreSharing",
            ]
        ),
        .target(
            name: "EncryptionConformance",
            dependencies: [
                "CipherDatabase", "CipherStore", "KeyCustody", "PageFormat", "StoreCrypto", "StorePlatform",
                "StoreSharing", "StoreTools",
            ]
        ),
        .target(
            name: "ChangesetSync",
            dependencies: [
                "CipherDatabase", "CipherRecords", "CipherSchema", "KeyCustody", "StoreCrypto", "StorePlatform",
                "StoreSharing",
            ]),
        .target(
            name: "CommitJoin",
            dependencies: ["CipherDatabase", "CipherStore", "KeyCustody", "StoreCrypto", "StorePlatform"]),
        .target(
            name: "PostgreSQLRemote",
            dependencies: [
                "ChangesetSync", .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"])),
            ]
        ),
        .executableTarget(
            name: "cipherctl",
            dependencies: [
                "ChangesetSync", "CipherStore", "EncryptionConformance", "KeyCustody", "KeyRotation", "PageFormat",
                "PostgreSQLRemote", "RotationCore", "StoreCrypto", "StorePlatform", "StoreSharing", "StoreTools",
            ]
        ),
        .executableTarget(name: "StoreDemo", dependencies: ["CipherStore"]),
        // Programs to copy: each of them shares an encrypted store between two processes, and checks what it reads.
        .executableTarget(
            name: "PlayersAndTeams", dependencies: ["CipherStore"], path: "Sources/Examples/PlayersAndTeams",
            exclude: ["README.md"]),
        .executableTarget(
            name: "Bookshelf", dependencies: ["CipherStore"], path: "Sources/Examples/Bookshelf",
            exclude: ["README.md"]),
        .executableTarget(
            name: "Inbox", dependencies: ["CipherStore"], path: "Sources/Examples/Inbox", exclude: ["README.md"]),
        .executableTarget(
            name: "LiveTable", dependencies: ["CipherStore"], path: "Sources/Examples/LiveTable",
            exclude: ["README.md", "screenshot.py"]),
        .executableTarget(
            name: "SyncTwoDevices", dependencies: ["ChangesetSync", "CipherStore"],
            path: "Sources/Examples/SyncTwoDevices", exclude: ["README.md"]),
        .executableTarget(
            name: "StoreBenchmark",
            dependencies: [
                "CBaseline", "ChangesetSync", "CipherStore", "EncryptionConformance", "KeyRotation", "PageFormat",
                "PostgreSQLRemote", "StoreCrypto", "StoreTools",
            ]),
        .target(name: "CBaseline", dependencies: ["COpenSSL", "CSQLCipher"]),

        // Tests: one folder for each kind (Docs/Testing.md).
        .target(
            name: "TestKit",
            dependencies: [
                "CipherStore", "CTestKit", "KeyCustody", "PageFormat", "StoreCrypto", "StorePlatform", "StoreSharing",
            ],
            path: "Tests/Support/TestKit"
        ),
        .target(name: "FaultShim", path: "Tests/Support/FaultShim"),
        .executableTarget(
            name: "StoreActor",
            dependencies: [
                "ChangesetSync", "CipherStore", "CSQLCipher", "CTestKit", "FaultShim", "KeyCustody", "KeyRotation",
                "PostgreSQLRemote", "StoreCrypto", "StorePlatform", "StoreSharing", "TestKit",
            ],
            path: "Tests/Support/StoreActor"
        ),
        .target(name: "CTestKit", path: "Tests/Support/CTestKit"),
        // Stores that sync, by seeded schedules (Docs/Testing.md).
        .target(
            name: "SyncSimulation",
            dependencies: [
                "ChangesetSync", "CipherDatabase", "CipherObservation", "CipherRecords", "CipherSchema", "StoreCrypto",
                "StorePlatform", "TestKit",
            ],
            path: "Tests/Support/SyncSimulation"
        ),
        .target(name: "SeededRandom", path: "Tests/Support/SeededRandom"),
        .executableTarget(
            name: "SyncSimulator", dependencies: ["SeededRandom", "SyncSimulation"],
            path: "Tests/Support/SyncSimulator"),
        .target(
            name: "FuzzTargets",
            dependencies: [
                "ChangesetSync", "CipherDatabase", "CipherStore", "CSQLCipher", "KeyCustody", "PageFormat",
                "StoreCrypto",
            ],
            path: "Tests/Fuzz/FuzzTargets"
        ),
        .testTarget(name: "FuzzTests", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/FuzzTests"),
        // Runs the tests of all targets, on threads that they may block (Docs/Testing.md).
        .target(name: "TestHarness", dependencies: ["CallWatch"], path: "Tests/Support/TestHarness"),
        .target(name: "CallWatch", path: "Tests/Support/CallWatch"),
        .testTarget(name: "StorePlatformTests", dependencies: ["StorePlatform"], path: "Tests/Unit/StorePlatform"),
        .testTarget(
            name: "StoreSharingTests",
            dependencies: ["StorePlatform", "StoreSharing", "TestKit"],
            path: "Tests/Unit/StoreSharing"
        ),
        .testTarget(
            name: "StoreCryptoTests",
            dependencies: ["COpenSSL", "StoreCrypto", "StorePlatform"],
            path: "Tests/Unit/StoreCrypto"
        ),
        .testTarget(
            name: "PageFormatTests",
            dependencies: ["PageFormat", "StoreCrypto", "StoreSharing", "CSQLCipher"],
            path: "Tests/Unit/PageFormat"
        ),
        .testTarget(
            name: "KeyCustodyTests",
            dependencies: ["KeyCustody", "StorePlatform", "StoreSharing", "StoreCrypto"],
            path: "Tests/Unit/KeyCustody"
        ),
        .testTarget(
            name: "CipherDatabaseTests",
            dependencies: [
                "CipherDatabase", "CipherSchema", "KeyCustody", "StorePlatform", "StoreSharing", "CSQLCipher",
                "TestHarness", "TestKit",
            ],
            path: "Tests/Unit/CipherDatabase"
        ),
        .testTarget(
            name: "CipherRecordsTests",
            dependencies: ["CipherDatabase", "CipherObservation", "CipherRecords", "CipherSchema"],
            path: "Tests/Unit/CipherRecords"
        ),
        .testTarget(
            name: "CipherObservationTests",
            dependencies: ["CipherDatabase", "CipherObservation", "CipherRecords", "CipherSchema", "CSQLCipher"],
            path: "Tests/Unit/CipherObservation"
        ),
        .testTarget(
            name: "CipherStoreTests",
            dependencies: [
                "CipherStore", "KeyCustody", "PageFormat", "StoreCrypto", "StorePlatform", "StoreSharing",
                "TestHarness",
                "TestKit", "StoreActor",
            ],
            path: "Tests/Unit/CipherStore"
        ),
        .testTarget(
            name: "RotationCoreTests",
            dependencies: [
                "CipherStore", "KeyCustody", "PageFormat", "RotationCore", "StoreCrypto", "StorePlatform",
                "StoreSharing",
                "TestKit",
            ],
            path: "Tests/Unit/RotationCore"
        ),
        .testTarget(
            name: "KeyRotationTests",
            dependencies: [
                "CipherStore", "KeyCustody", "KeyRotation", "RotationCore", "StorePlatform", "StoreSharing", "TestKit",
                "StoreActor",
            ],
            path: "Tests/Unit/KeyRotation"
        ),
        .testTarget(
            name: "StoreToolsTests",
            dependencies: [
                "CipherStore", "KeyCustody", "KeyRotation", "PageFormat", "StorePlatform", "StoreSharing", "StoreTools",
                "TestKit",
            ],
            path: "Tests/Unit/StoreTools"
        ),
        .testTarget(
            name: "EncryptionConformanceTests",
            dependencies: [
                "CipherStore", "EncryptionConformance", "KeyCustody", "KeyRotation", "PageFormat", "StoreCrypto",
                "StorePlatform", "StoreSharing", "StoreTools", "TestKit",
            ],
            path: "Tests/Unit/EncryptionConformance"
        ),
        .testTarget(
            name: "ChangesetSyncTests",
            dependencies: [
                "ChangesetSync", "CipherDatabase", "CipherObservation", "CipherRecords", "CipherSchema", "CSQLCipher",
                "KeyCustody", "StoreCrypto", "StorePlatform", "StoreSharing", "SyncSimulation", "TestKit",
            ],
            path: "Tests/Unit/ChangesetSync"
        ),
        .testTarget(
            name: "CommitJoinTests",
            dependencies: ["CipherDatabase", "CommitJoin", "KeyCustody", "StoreCrypto", "StorePlatform", "TestKit"],
            path: "Tests/Unit/CommitJoin"
        ),
        .testTarget(
            name: "PostgreSQLRemoteTests",
            dependencies: [
                "ChangesetSync", "CipherDatabase", "PostgreSQLRemote", "TestKit",
                .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"])),
            ],
            path: "Tests/Unit/PostgreSQLRemote"
        ),
        .testTarget(
            name: "MultiProcessTests",
            dependencies: ["CipherStore", "StorePlatform", "StoreSharing", "TestKit", "StoreActor"],
            path: "Tests/MultiProcess"
        ),
        .testTarget(
            name: "ConformanceTests",
            dependencies: [
                "CipherStore", "KeyCustody", "KeyRotation", "PageFormat", "RotationCore", "StoreCrypto",
                "StorePlatform",
                "StoreSharing", "StoreTools", "TestKit", "StoreActor",
            ],
            path: "Tests/Conformance"
        ),
        .testTarget(
            name: "CrashTests",
            dependencies: ["CipherStore", "KeyCustody", "StorePlatform", "StoreSharing", "TestKit", "StoreActor"],
            path: "Tests/Crash"
        ),
        .testTarget(
            name: "CommandLineTests",
            dependencies: [
                "ChangesetSync", "CipherStore", "KeyCustody", "KeyRotation", "StoreTools", "TestKit", "StoreActor",
                "cipherctl",
            ],
            path: "Tests/CommandLine"
        ),
        .testTarget(
            name: "PropertyTests",
            dependencies: ["CipherDatabase", "TestKit"],
            path: "Tests/Property"
        ),
        .testTarget(name: "TidyTests", dependencies: ["StoreCrypto", "TestHarness"], path: "Tests/Tidy"),
    ],
    swiftLanguageModes: [.v6]
)

// libFuzzer has the main function of this program, so nothing else can link it: `make fuzz` sets the variable.
if Context.environment["CIPHERSTORE_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(name: "StoreFuzzer", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/StoreFuzzer"))
}

// Only these tests are built, with commas between them, and what they need: .ci/run does so on a second system, where building
// takes longer than running.
if let names = Context.environment["CIPHERSTORE_TEST_TARGETS"] {
    let dependencies = Dictionary(
        uniqueKeysWithValues: package.targets.map { ($0.name, $0.dependencies.compactMap(\.targetName)) })
    var needed: Set<String> = []
    var pending = names.split(separator: ",").map(String.init)
    while let name = pending.popLast() {
        if needed.insert(name).inserted { pending += dependencies[name] ?? [] }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products.removeAll { !needed.contains($0.name == "FaultShimPreload" ? "FaultShim" : $0.name) }
}

// The README of each target under Sources, and of each kind of tests, tells what it is for.
for target in package.targets where target.type != .system {
    let isKind = target.type == .test && target.path?.split(separator: "/").count == 2
    if target.path == nil || isKind { target.exclude.append("README.md") }
}

// `make` optimizes what is tested, but not the tests: they run in less than half of the time. Assertions and the parts
// of a debug build stay. A package that depends on this one sets no such variable, since it may not have unsafe flags.
if Context.environment["CIPHERSTORE_OPTIMIZED"] != nil {
    for target in package.targets where target.type == .regular || target.type == .executable {
        let flags = SwiftSetting.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))
        target.swiftSettings = (target.swiftSettings ?? []) + [flags]
    }
}

extension Target.Dependency {
    /// The name of a target of this package; nil for a product of another one.
    var targetName: String? {
        switch self {
        case .targetItem(let name, _), .byNameItem(let name, _): name
        default: nil
        }
    }
}
