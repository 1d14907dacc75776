"""A made-up atmosphere: plausible hourly fields on a latitude-longitude grid.

Nothing here solves an equation of motion. The fields are put together from what a weather map
shows: warm tropics and cold poles, continents that heat and cool with the sun, a jet stream with
lows and their fronts travelling east along it, trade winds, rain along fronts and at the equator.
Equal `seed` and time give equal fields, so days can be made in any order and by any process.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

type Field = npt.NDArray[np.float32]

EARTH_RADIUS_M = 6.371e6
OMEGA = 7.292e-5
LAPSE_K_PER_M = 0.0065


@dataclass(frozen=True)
class Low:
    """A travelling low: where it was at hour 0, its speed (degrees per hour), depth and size."""

    lat: float
    lon: float
    speed: float
    drift: float
    depth_pa: float
    radius: float  # degrees


@dataclass(frozen=True)
class Planet:
    lats: int
    lons: int
    seed: int = 31

    @cached_property
    def lat(self) -> Field:
        """North to south, centres of cells, as most weather files have it."""
        step = 180 / self.lats
        return np.arange(90 - step / 2, -90, -step).astype(np.float32)

    @cached_property
    def lon(self) -> Field:
        step = 360 / self.lons
        return np.arange(-180 + step / 2, 180, step).astype(np.float32)

    @cached_property
    def relief(self) -> Field:
        """Height above the sea in metres, negative under it: smooth noise on the sphere."""
        rng = np.random.default_rng(self.seed)
        x, y, z = self._sphere
        height = np.zeros((self.lats, self.lons))
        for octave in range(7):
            scale = 1.5 * 1.75**octave
            for _ in range(10):
                direction = rng.normal(size=3)
                direction *= scale / np.linalg.norm(direction)
                phase = rng.uniform(0, 2 * np.pi)
                wave = direction[0] * x + direction[1] * y + direction[2] * z
                height += np.cos(wave + phase) / 1.65**octave
        height -= np.quantile(height, 0.66)  # a third of the planet is land
        return (height * 1100).astype(np.float32)

    @cached_property
    def land(self) -> Field:
        return (self.relief > 0).astype(np.float32)

    @cached_property
    def lows(self) -> tuple[Low, ...]:
        rng = np.random.default_rng(self.seed + 1)
        return tuple(
            Low(
                lat=hemisphere * rng.uniform(42, 60),
                lon=number * 60 + rng.uniform(-22, 22),
                speed=rng.uniform(0.45, 0.9),
                drift=hemisphere * rng.uniform(0.0, 0.03),
                depth_pa=rng.uniform(1600, 4200),
                radius=rng.uniform(9, 15),
            )
            for hemisphere in (1, -1)
            for number in range(6)
        )

    @cached_property
    def _sphere(self) -> tuple[Field, Field, Field]:
        lat, lon = np.deg2rad(self.lat)[:, None], np.deg2rad(self.lon)[None, :]
        return np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat) + 0 * lon

    @cached_property
    def _turbulence(self) -> Field:
        """Small weather, the same all the time; it is carried along by shifting it east."""
        rng = np.random.default_rng(self.seed + 2)
        spectrum = np.fft.rfft2(rng.normal(size=(self.lats, self.lons)))
        ky = np.fft.fftfreq(self.lats)[:, None] * self.lats
        kx = np.fft.rfftfreq(self.lons)[None, :] * self.lons
        k = np.hypot(ky, kx)
        noise = np.fft.irfft2(
            spectrum * np.exp(-((k / 28) ** 2)) / (k + 4), s=(self.lats, self.lons)
        )
        return (noise / noise.std()).astype(np.float32)

    def hour(self, hour: float) -> dict[str, Field]:
        """All fields at `hour` hours since the epoch of the data set; one (lat, lon) each."""
        pressure, front = self._pressure(hour)
        u10, v10 = self._wind(pressure)
        t2m = self._temperature(hour, front)
        rain = self._rain(hour, pressure, front, t2m)
        fields = {"t2m": t2m, "msl": pressure, "u10": u10, "v10": v10, "tp": rain}
        return {name: field.astype(np.float32) for name, field in fields.items()}

    def _pressure(self, hour: float) -> tuple[Field, Field]:
        """Sea level pressure (Pa), and how much warm (+) or cold (-) air a front brings, in K."""
        lat, lon = np.deg2rad(self.lat)[:, None], np.deg2rad(self.lon)[None, :]
        belts = 101_100 + 900 * np.cos(6 * lat) * np.cos(lat) ** 0.5 * -1 + 500 * np.cos(2 * lat)
        pressure = np.broadcast_to(belts, (self.lats, self.lons)).copy()
        band = np.exp(-(((np.abs(lat) - np.deg2rad(52)) / np.deg2rad(17)) ** 2))
        front = np.zeros_like(pressure)
        for wave, period, height in ((3, 310.0, 520.0), (5, 160.0, 610.0), (7, 110.0, 330.0)):
            phase = wave * lon - 2 * np.pi * hour / period * wave / 5 + 1.3 * np.abs(lat) * wave / 2
            pressure += height * band * np.cos(phase)
            front += 3.2 * band * np.sin(phase + 0.4)
        for low in self.lows:
            away, east, north = self._around(low, hour)
            life = 0.75 + 0.25 * np.sin(hour / 37 + low.lon)
            core = np.exp(-((away / low.radius) ** 2))
            pressure -= low.depth_pa * life * core
            # Warm air ahead on the equator side, cold air behind: the sector between the fronts.
            spiral = np.arctan2(north * np.sign(low.lat), east) + away / low.radius * 0.9
            front += 7.5 * life * core * np.cos(spiral + 0.6) * (away / low.radius + 0.25)
        drift = np.roll(self._turbulence, int(hour * self.lons / 360 * 0.55), axis=1)
        return pressure + 130 * drift * np.cos(lat), front

    def _around(self, low: Low, hour: float) -> tuple[Field, Field, Field]:
        """Distance from a low's centre, and eastward and northward parts of it, in degrees."""
        lat0 = low.lat + low.drift * hour % 10
        lon0 = low.lon + low.speed * hour
        north = (self.lat - lat0)[:, None]
        east = ((self.lon - lon0 + 180) % 360 - 180)[None, :] * np.cos(np.deg2rad(lat0))
        return np.hypot(north, east), east + 0 * north, north + 0 * east

    def _wind(self, pressure: Field) -> tuple[Field, Field]:
        """Geostrophic wind, turned and slowed by friction; trades near the equator."""
        lat = np.deg2rad(self.lat)[:, None]
        dy = np.gradient(pressure, EARTH_RADIUS_M * np.deg2rad(180 / self.lats), axis=0) * -1
        padded = np.concatenate([pressure[:, -1:], pressure, pressure[:, :1]], axis=1)
        dx = np.gradient(padded, EARTH_RADIUS_M * np.deg2rad(360 / self.lons), axis=1)[:, 1:-1]
        dx = dx / np.maximum(np.cos(lat), 0.2)
        coriolis = 2 * OMEGA * np.sin(lat)
        coriolis = np.sign(coriolis + 1e-12) * np.maximum(np.abs(coriolis), 4e-5)
        u, v = -dy / (1.2 * coriolis), dx / (1.2 * coriolis)
        drag = np.where(self.land > 0, 0.45, 0.72)
        inward = 0.35 * np.sign(lat)
        trades = -6.5 * np.exp(-((np.rad2deg(lat) / 17) ** 2)) * (0.4 + 0.6 * (self.land == 0))
        east = drag * (u - inward * v) + trades
        north = drag * (v + inward * u) + 0.25 * trades * np.sign(lat)
        return east, north

    def _temperature(self, hour: float, front: Field) -> Field:
        lat, lon = np.deg2rad(self.lat)[:, None], self.lon[None, :]
        season = -0.12 * np.cos(2 * np.pi * (hour / 24 + 10) / 365.25)
        base = 302 - 52 * np.sin(lat - season) ** 2 - 8 * np.sin(lat - season) ** 6
        noon = np.cos(2 * np.pi * ((hour % 24) + lon / 15 - 14.5) / 24)
        daylight = np.clip(np.cos(lat - season), 0, 1)
        diurnal = np.where(self.land > 0, 7.5, 0.7) * noon * daylight
        continental = self.land * 4.5 * np.cos(2 * lat)
        height = np.maximum(self.relief, 0) * LAPSE_K_PER_M
        small = np.roll(self._turbulence, int(hour * self.lons / 360 * 0.4), axis=1)
        field: Field = base + diurnal + continental - height + front + 0.8 * small
        return field

    def _rain(self, hour: float, pressure: Field, front: Field, t2m: Field) -> Field:
        """Metres of water in the hour, none over most of the planet most of the time."""
        lat = self.lat[:, None]
        edge = np.hypot(*np.gradient(front))
        lift = 3.4 * edge / (edge.std() * 4 + 1e-6) + (100_600 - pressure) / 1500
        belt = 1.4 * np.exp(-(((lat - 5) / 8) ** 2)) - 0.9 * np.exp(
            -(((np.abs(lat) - 27) / 9) ** 2)
        )
        small = np.roll(self._turbulence, int(hour * self.lons / 360 * 0.7), axis=1)
        wet = np.clip(lift * 0.6 + belt + 0.9 * small - 1.25, 0, None)
        metres: Field = wet**1.5 * 1.1e-3 * np.clip((t2m - 235) / 60, 0.05, 1.2)
        return metres
